"""`python -m cqrs_cli` is `cqrs`."""

import sys

from cqrs_cli.cli.main import main

sys.exit(main())
