"""Files that register the lab with coding agents."""
