"""The plan of one pass over the events of an aggregate: the data that every task needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The events to read, and the code that reads them."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # where the package lies; on a worker it comes from the shipped archive
    bounds: Mapping[int, tuple[int, int]]  # partition → (start, end) offsets, for all partitions
