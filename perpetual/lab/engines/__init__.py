"""Schedulers and placements as the lab asks them."""
