"""The scheduler of this machine: a supervisor for each run."""
