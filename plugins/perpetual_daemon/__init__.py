"""The daemon: turns the loop unattended, and lets companions work beside it."""
