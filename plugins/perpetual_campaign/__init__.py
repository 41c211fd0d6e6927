"""Campaigns on code: candidates in git worktrees of their own, each measured against the best in pairs of runs."""
