"""For the tests of plugin authors: one contract suite per slot, and in-memory twins. The kernel never imports it.

`perpetual.testing.stores` holds the suite of the store slot and imports pytest; `perpetual.testing.memory_store` is a
store without a disk.
"""
