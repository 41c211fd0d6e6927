"""The plugin's module `perpetual_cli.tables`, under its public name."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual_cli.tables import *  # noqa: F403 - the module itself, for type checkers alone
else:
    from importlib import import_module

    sys.modules[__name__] = import_module("perpetual_cli.tables")
