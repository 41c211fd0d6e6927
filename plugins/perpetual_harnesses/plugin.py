"""Entry point; being written."""
