"""The plugin's module `perpetual_export.run_log`, under its public name. `perpetual.log` is in it."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual_export.run_log import *  # noqa: F403 - the module itself, for type checkers alone
else:
    from importlib import import_module

    sys.modules[__name__] = import_module("perpetual_export.run_log")
