"""Every figure in the README, one command each: `python -m benchmarks.backlog --help`."""
