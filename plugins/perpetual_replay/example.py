"""The bundled example: three small tasks whose score depends on a note, as an agent's would that follows it."""

from __future__ import annotations

__all__ = ["FILES", "NOTE", "NOTE_PATH"]

NOTE_PATH = "skills/step-size.md"
NOTE = """# Step size of descent on quadratics

Use step: 0.15 where the curvature is at most 10. Larger steps than 0.2 diverge there, smaller ones need too long.
"""

_PROGRAM = '''"""Minimises a quadratic by gradient descent, with the step size of the notes, as an agent would use it.

The notes are in the file that PERPETUAL_CONTEXT_FILE names. The last line of the output is the score in [0, 1]: how
much of the way to the minimum 30 steps have gone.
"""

import os
import random
import re
import sys

curvature = float(sys.argv[1])
notes = open(os.environ["PERPETUAL_CONTEXT_FILE"], encoding="utf-8").read()
named = re.search(r"\\bstep: ([0-9.]*[0-9])", notes)
step = float(named.group(1)) if named else 0.002  # without advice: small, to be safe

draw = random.Random(int(os.environ["PERPETUAL_SEED"]))
point = [draw.uniform(0.5, 1.5), draw.uniform(0.5, 1.5)]
start = curvature * point[0] ** 2 + point[1] ** 2
for _ in range(30):
    noise = draw.gauss(0, 0.05)
    point = [point[0] - step * (curvature * point[0] + noise), point[1] - step * (point[1] + noise)]
end = min(1e6, curvature * point[0] ** 2 + point[1] ** 2)
print(f"step {step}: from {start:.3f} to {end:.3f}")
print(max(0.0, min(1.0, 1 - end / start)))
'''

FILES = {
    "descend.py": _PROGRAM,
    "flat.yaml": "command: python replay/descend.py 2\nquery: step size of descent\nwall: 60s\n",
    "middle.yaml": "command: python replay/descend.py 5\nquery: step size of descent\nwall: 60s\n",
    "steep.yaml": "command: python replay/descend.py 10\nquery: step size of descent\nwall: 60s\nweight: 2\n",
}
