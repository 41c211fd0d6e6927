"""The redactor of secrets."""
