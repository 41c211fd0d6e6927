"""The plugin's module `perpetual_scorers.proposing.planning`, under its public name."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual_scorers.proposing.planning import *  # noqa: F403 - the module itself, for type checkers alone
else:
    from perpetual.science import of_plugin

    sys.modules[__name__] = of_plugin(__name__)
