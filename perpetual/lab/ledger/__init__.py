"""Reads and writes the rows of the record, one module for each noun."""
