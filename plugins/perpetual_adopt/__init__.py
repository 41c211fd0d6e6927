"""Earlier work of other tools, read into the record."""
