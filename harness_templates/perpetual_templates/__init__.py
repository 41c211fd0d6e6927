"""Templates that `perpetual init` fills in: one folder per harness. Data only."""
