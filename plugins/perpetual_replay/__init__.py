"""The replay gate: a note that changes behaviour is proven where paired runs, with it and without it, show it."""
