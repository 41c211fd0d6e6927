"""Moves a project's queue on when a run ends, with no daemon and no terminal open."""
