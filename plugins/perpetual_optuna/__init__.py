"""Candidates for sweeps from Optuna's samplers."""
