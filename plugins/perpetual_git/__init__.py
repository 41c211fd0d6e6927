"""The memory in a bare git repository, written with dulwich."""
