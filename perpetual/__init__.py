"""Perpetual: the persistent lab behind coding agents that do machine-learning research.

Importing this package is free: it holds the version and loads its public names (`Lab`, `log`, `init`,
`finish`, `hookimpl`, `Provider`) on first use. In a notebook, `%load_ext perpetual` brings `%%perpetual`.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["Lab", "Provider", "__version__", "finish", "hookimpl", "init", "log"]

TYPE_CHECKING = False  # as typing's, whose import would be half the cost of `perpetual --version`
if TYPE_CHECKING:
    from typing import Any

    from perpetual.hookspecs import hookimpl
    from perpetual.lab import Lab
    from perpetual.slots import Provider
    from perpetual_export.adhoc import finish, init
    from perpetual_export.run_log import log

_HOMES = {
    "Lab": "perpetual.lab",
    "Provider": "perpetual.slots",
    "finish": "perpetual_export.adhoc",
    "hookimpl": "perpetual.hookspecs",
    "init": "perpetual_export.adhoc",
    "load_ipython_extension": "perpetual_export.magic",
    "log": "perpetual_export.run_log",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'perpetual' has no attribute {name!r}")
    # Not importlib's function: its package costs a training script more than our own module.
    return getattr(__import__(home, fromlist=(name,)), name)
