"""The demo: a real campaign that decides five hypotheses in under a minute."""
