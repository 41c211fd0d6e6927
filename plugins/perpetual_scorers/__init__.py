"""Scorers of candidates, and simulated research to compare them in."""
