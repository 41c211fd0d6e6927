"""The supervisor process of a run, and its folder."""
