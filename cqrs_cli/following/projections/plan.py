"""The plan of a projection, which travels to its tasks, and what they hand back: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.lineage_log import read_lineage
from cqrs_cli.kafka.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class ProjectionPlan:
    """One run of a projection: the same for all its tasks."""

    name: str
    connection: Connection
    aggregates: str  # the package
    root: Path
    topic_ids: Mapping[str, str]  # by topic
    sources: list[EventPartition]
    place: DatabaseAddress
    owner: str
    targets: Mapping[EventPartition, int] | None = None  # where `--once` ends: events offset
    patience: float | None = None  # seconds that database or broker may be away; None: any time
    batch: int = 5000
    idle_check: float = 1.0  # seconds without events after which an owner looks whether it still is one
    beside: bool = False  # it fills new tables, while others are served
    grown: Mapping[str, Topics] = field(
        default_factory=dict
    )  # of the aggregates that have a lineage, by name

    def lineage(self, aggregate: str) -> PartitionLineage | None:
        """The lineage of an aggregate's partitions as it is now; None if they never grew."""
        topics = self.grown.get(aggregate)
        if topics is None:
            return None
        count = sum(source.aggregate == aggregate for source in self.sources)
        return read_lineage(self.connection, topics, count)


@dataclass(frozen=True, slots=True)
class ProjectorResult:
    """The end of a projector: a quiet one (`error` None), or the error that ends the run."""

    source: EventPartition
    events: int = 0  # projected
    began: float = 0.0  # seconds since the epoch
    ended: float = 0.0
    error: CqrsError | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ProjectionProgress:
    """The positions of a projection, and the ends of the logs as they were seen last."""

    at: float  # monotonic seconds
    positions: Mapping[EventPartition, int]
    ends: Mapping[EventPartition, int]
    events: int = 0  # projected, known at the end
    seconds: float = 0.0  # that the projectors worked, known at the end
    beside: bool = False  # of new tables, while others are served
    again: int = 0  # tasks that were submitted again

    @property
    def position(self) -> int:
        """All positions together: it rises with every batch."""
        return sum(self.positions.values())

    @property
    def lag(self) -> int:
        """Records below the ends that are not projected."""
        return sum(self.lags.values())

    @property
    def lags(self) -> dict[EventPartition, int]:
        """The same for each partition."""
        return {source: max(0, end - self.positions.get(source, 0)) for source, end in self.ends.items()}
