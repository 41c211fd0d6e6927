"""Tools for plugin authors: new, check, install, chaos."""
