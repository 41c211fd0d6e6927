"""Parameters of an experiment: what its configuration, command-line options and environment set.

Read as `compare` reads them; used by tables of runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual_report.comparison import flat, options_of

if TYPE_CHECKING:
    from perpetual.api import Experiment

__all__ = ["parameters_of"]


def parameters_of(experiment: Experiment) -> dict[str, object]:
    """Returns the parameters by name: `--lr 0.1` and `{"lr": 0.1}` are `lr`, `{"opt": {"lr": 1}}` is `opt.lr`.

    Options keep the text that was typed. A name that two places set otherwise is kept under the place of the weaker
    one as well: options before configuration before environment.
    """
    try:
        options = options_of(experiment.command)
    except ValueError:  # of an old or imported record: a quote without its end
        options = {}
    found: dict[str, object] = {
        name.removeprefix("command ").lstrip("-"): value
        for name, value in options.items()
        if name.startswith("command -")
    }
    config: dict[str, object] = {}
    for name, value in experiment.config.items():
        config |= flat(name, value)
    places: tuple[tuple[str, Mapping[str, object]], ...] = (("config", config), ("env", experiment.env))
    for place, table in places:
        for name, value in table.items():
            if name not in found:
                found[name] = value
            elif str(found[name]) != str(value):
                found[f"{place}.{name}"] = value
    return found
