"""The commands on hypotheses, experiments, runs, evidence, memory and the store."""
