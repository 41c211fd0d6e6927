"""Drives coding agents: one turn of a harness at a time, over ACP or by its command line."""
