"""A live view of the lab in a terminal: claims, runs with their curves, GPUs, budget, approvals and events."""
