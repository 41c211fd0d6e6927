"""Thinkers: a model or a harness that comments on runs and proposes experiments beside the loop."""
