"""Run the command line `cqrs` with `python -m cqrs_cli`."""

import sys

from cqrs_cli.cli.main import main

sys.exit(main())
