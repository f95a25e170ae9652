"""Read models in a database, exactly once. `wait` is what programs that read them use: see docs/projections.md."""

from cqrs_cli.projections.waiting import wait_for_event as wait

__all__ = ["wait"]
