"""What the record said at a moment, and what has changed since: the command `believed`."""
