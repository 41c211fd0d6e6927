"""The morning after: what a lab decided, spent and lost in a time, and what waits for a person."""
