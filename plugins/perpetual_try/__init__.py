"""One command from an idea to its verdict: `perpetual try`."""
