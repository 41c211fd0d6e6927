"""Floor 4: the command line. One module per command family; a command reads its options, calls the lab, and shows."""
