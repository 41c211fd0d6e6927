"""The process that an ending run's supervisor starts: `python -P -m perpetual_dispatch` in `.perpetual/dispatch`."""

import sys

from perpetual_dispatch.dispatcher import main

sys.exit(main())
