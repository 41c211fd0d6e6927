"""Helpers that two plugins need, which know nothing of a lab. Floor 0.

Durable files and locks, processes and their supervision, JSON, TOML and YAML edited in place, units, folders watched.
"""
