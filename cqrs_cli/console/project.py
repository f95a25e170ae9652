"""The project that a console shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.settings import Settings

if TYPE_CHECKING:
    from cqrs_cli.following.projections.databases.address import DatabaseAddress


@dataclass(frozen=True)
class ConsoleProject:
    """The aggregates, process managers and projections of a console, and their cluster.

    `with_flags` adds to a command line the flags that choose this cluster. `report` logs an operator's action.
    """

    settings: Settings
    connection: Connection
    aggregates: Mapping[str, Aggregate]
    processes: Sequence[LoadedProcess] = ()
    database: "DatabaseAddress | None" = None  # the database of the projections
    with_flags: Callable[[str], str] = str
    report: Callable[[str], None] = print

    @property
    def partitioner(self) -> Partitioner:
        """The partitioner of the project's topics."""
        return self.settings.partitioner

    @property
    def state_dir(self) -> Path:
        """The folder of the shards on this machine."""
        return self.settings.state_dir

    def topics(self, aggregate: str) -> Topics:
        """Return the topics of an aggregate."""
        return Topics(aggregate, self.settings.topic_prefix)

    def all_topics(self) -> dict[str, Topics]:
        """Return aggregate → topics."""
        return {name: self.topics(name) for name in self.aggregates}
