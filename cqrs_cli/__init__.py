"""What an aggregate imports; see `interface` in the docs. Loads no Spark, Kafka, LMDB or Typer."""

from cqrs_cli.core.decider import Command, Decider, Event, Rejected, State, replace
from cqrs_cli.version import __version__

__all__ = ["Command", "Decider", "Event", "Rejected", "State", "__version__", "replace"]
