"""The plan of a projection's run, which is sent to its tasks, and the results of tasks: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, requested_key_space


@dataclass(frozen=True, slots=True)
class ProjectionPlan:
    """The plan of one run of a projection, equal for all its tasks."""

    name: str
    connection: Connection
    aggregates: str  # the package of the aggregates
    root: Path
    topic_ids: Mapping[str, str]  # topic → topic id
    sources: list[EventPartition]
    database: DatabaseAddress
    owner: str
    targets: Mapping[EventPartition, int] | None = None  # events offset at which `--once` ends
    timeout: float | None = None  # timeout in seconds for an unavailable database or broker; None: unlimited
    batch: int = 5000
    ownership_interval: float = 1.0  # seconds without events until a projector checks its ownership
    is_shadow: bool = False  # True: fills shadow tables, while the live tables are in use
    #: Aggregate → topics, for aggregates that may have been repartitioned.
    repartitioned_topics: Mapping[str, Topics] = field(default_factory=dict)
    partitioner: Partitioner = "murmur2"

    def read_key_space(self, aggregate: str) -> KeySpace:
        """Return the current key space of an aggregate."""
        count = sum(source.aggregate == aggregate for source in self.sources)
        topics = self.repartitioned_topics.get(aggregate)
        if topics is None:
            return KeySpace.fixed(count, self.partitioner)
        return requested_key_space(self.connection, topics, self.partitioner, count, REQUEST_TIMEOUT)


@dataclass(frozen=True, slots=True)
class ProjectorResult:
    """The result of a projector: a normal end (`error` None), or the error that ends the run."""

    source: EventPartition
    events: int = 0  # number of projected events
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch
    error: CqrsError | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ProjectionProgress:
    """The positions of a projection, and the ends of the logs at the last poll."""

    polled_at: float  # time of the last poll, monotonic seconds
    positions: Mapping[EventPartition, int]
    ends: Mapping[EventPartition, int]
    events: int = 0  # projected events, known at the end
    seconds: float = 0.0  # duration of the projectors' work, known at the end
    is_shadow: bool = False  # True: progress of shadow tables, while the live tables are in use
    resubmissions: int = 0  # number of resubmitted tasks

    @property
    def position(self) -> int:
        """The sum of all positions; it rises with every batch."""
        return sum(self.positions.values())

    @property
    def lag(self) -> int:
        """Number of records before the ends that are not projected."""
        return sum(self.lags.values())

    @property
    def lags(self) -> dict[EventPartition, int]:
        """The lag of each partition."""
        return {source: max(0, end - self.positions.get(source, 0)) for source, end in self.ends.items()}
