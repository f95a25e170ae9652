"""The names that an aggregate imports; the README has one in ten lines. Loads no Spark, Kafka, LMDB or Typer."""

from msgspec import field
from msgspec.structs import replace

from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, Rejected, State
from cqrs_cli.version import __version__

__all__ = ["Command", "Context", "Decider", "Event", "Rejected", "State", "__version__", "field", "replace"]
