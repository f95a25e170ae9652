"""The output of `cqrs sql`, `trace`, `whatif` and `send --dry-run`."""
