"""Learning curves in the terminal, in the report and for agents, and how far live runs are."""
