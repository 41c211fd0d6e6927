"""Reports of the record, and their verification."""
