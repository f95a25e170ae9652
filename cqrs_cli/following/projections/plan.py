"""The plan of a projection's run, which the driver sends to the tasks, and the results and progress of the tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.plan import SubscriptionPlan, SubscriptionProgress
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.event_tail import EventPartition


@dataclass(frozen=True, slots=True)
class ProjectionPlan(SubscriptionPlan):
    """The plan of one run of a projection. All tasks get the same plan."""

    name: str  # name of the projection
    sources: list[EventPartition]  # the partitions to project
    database: DatabaseAddress
    owner: str  # id of the run in the positions table, such as `host:4711:1f2e3d4c`
    #: Partition → events offset at which a run with `--once` ends; None: the run does not end.
    end_offsets: Mapping[EventPartition, int] | None = None
    timeout: float | None = None  # timeout in seconds for an unavailable database or broker; None: unlimited
    batch: int = 5000  # maximum number of events in a transaction
    ownership_interval: float = 1.0  # seconds without events until a projector checks its ownership
    is_shadow: bool = False  # True: the run fills shadow tables, while the live tables are in use


@dataclass(frozen=True, slots=True)
class ProjectorResult:
    """The result of a projector. `error`: the error that ends the run; None after a normal end."""

    source: EventPartition
    events: int = 0  # number of projected events
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch
    error: CqrsError | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ProjectionProgress(SubscriptionProgress[EventPartition]):
    """The progress of a projection."""

    is_shadow: bool = False  # True: progress of shadow tables, while the live tables are in use
