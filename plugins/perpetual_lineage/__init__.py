"""Lineage of notes: what was taken back does not stay, nor come back."""
