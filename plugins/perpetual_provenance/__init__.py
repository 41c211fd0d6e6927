"""Captures of code, environment and protected paths."""
