"""Mirrors: what is recorded of runs, copied out to the tracker that a team has. The record stays the only source."""
