"""Rule families of the memory gate, one module per category.  Imported by `scanner`; standard library only."""
