"""The plan of a scan of an aggregate's events: the data that each task needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The events to read, and the code to decode them."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # folder of the package; on a worker, the shipped archive
    bounds: Mapping[int, tuple[int, int]]  # partition → (start, end) offsets, for all partitions
