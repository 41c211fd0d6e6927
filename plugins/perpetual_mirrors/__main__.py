"""The process that pushes: `python -P -m perpetual_mirrors PROJECT TARGET`."""

import sys

from perpetual_mirrors.worker import main

sys.exit(main(sys.argv[1:]))
