"""The contract suites of the slots `loop` and `companion`."""
