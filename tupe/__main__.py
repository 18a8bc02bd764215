"""`python -m tupe` is the command `tupe`."""

import sys

from tupe.cli.main import main

sys.exit(main())
