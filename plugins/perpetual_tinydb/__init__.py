"""The store in a journal that TinyDB reads."""
