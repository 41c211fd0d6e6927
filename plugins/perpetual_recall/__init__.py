"""Retrieval of notes: which ones are found, and which ones agents are offered."""
