"""Which run to propose next: pure functions of a state. `perpetual.science` gives them their public names."""
