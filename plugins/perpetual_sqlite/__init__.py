"""The store in an SQLite database."""
