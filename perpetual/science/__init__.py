"""The scientific core: what evidence is worth, which run to propose next, which memory earned its place.

Pure functions of the standard library: no I/O, no clock, no global state, and nothing here imports another
part of Perpetual, so each rule can be benched in a simulated world. `perpetual.lab`, the loop and the scorer
and gate plugins import from here; `perpetual.science.bridge` answers other languages.
"""

from perpetual.science.evidence import confidence
from perpetual.science.information import propose, score_candidates
from perpetual.science.outcomes import outlook
from perpetual.science.replay import gate
from perpetual.science.strategies import STRATEGIES

__all__ = ["STRATEGIES", "confidence", "outlook", "propose", "score_candidates", "gate"]
