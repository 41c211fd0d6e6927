"""Full-text search over the whole record: `perpetual find`, and `perpetual_find` for agents."""
