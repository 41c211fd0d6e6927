"""Early stopping of runs: what decides it, and the rule under which the evidence stays valid."""
