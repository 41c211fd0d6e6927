"""Provenance of a run: captures, and the code that was approved."""
