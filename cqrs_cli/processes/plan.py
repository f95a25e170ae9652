"""The plan of a run of processes, which travels to its tasks, and what they hand back: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.owner.claim import Claim
from cqrs_cli.owner.timing import Timing
from cqrs_cli.system.limits import BASE_BYTES, Needs, owner_needs


class Hearing(NamedTuple):
    """A partition of events that a process hears: it has one owner."""

    process: str
    source: EventPartition

    def __str__(self) -> str:
        return f"process {self.process}, {self.source.topic} partition {self.source.partition}"


class EventsTopic(NamedTuple):
    """A topic of events as the cluster has it."""

    topic_id: str
    partitions: int


class CommandsTopic(NamedTuple):
    """A topic of commands as the cluster has it."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One submission of one run: the same for all its tasks."""

    connection: Connection
    prefix: str
    package: str  # of the aggregates
    root: Path
    partitioner: Partitioner
    hearings: list[Hearing]
    events: Mapping[str, EventsTopic]  # by topic
    commands: Mapping[str, CommandsTopic]  # by aggregate
    request_bytes: int
    run_epoch: int
    run: str
    submission: int = 0
    beginning: bool = False  # where a new process begins
    targets: Mapping[Hearing, int] | None = None  # where `--once` ends: events offset
    skips: Mapping[Hearing, int] = field(default_factory=dict)
    losses: Mapping[Hearing, int] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    brokers: int = 1  # of the cluster: each costs an owner's clients some descriptors

    def needs(self, hearings: int) -> Needs:
        """The needs of a task with this number of partitions."""
        return Needs(owner_needs(hearings, self.brokers).descriptors, BASE_BYTES)

    def share(self, task: int, tasks: int) -> list[Hearing]:
        """The partitions that one of `tasks` tasks owns."""
        return self.hearings[task::tasks]

    def topics(self, hearing: Hearing) -> ProcessTopics:
        """The names of a process's topic, group and transactions."""
        return ProcessTopics(hearing.process, self.prefix)

    def claim(self, hearing: Hearing, attempt: int) -> Claim:
        """The claim of a task's attempt, before it has seen the committed one."""
        found = self.events[hearing.source.topic]
        return Claim(self.run_epoch, self.run, self.submission, attempt, 0, found.topic_id, found.partitions)


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The end of an owner: a quiet one (`error` None), or the error that ends the run."""

    hearing: Hearing
    events: int = 0  # reacted to
    commands: int = 0  # sent
    began: float = 0.0  # seconds since the epoch
    ended: float = 0.0
    error: CqrsError | None = None
    notes: tuple[str, ...] = ()
    cpu: float = 0.0  # seconds of its whole task, in the result of the task's first owner


@dataclass(frozen=True, slots=True)
class ProcessProgress:
    """The positions of a run's processes, and the ends of the logs as they were seen last."""

    at: float  # monotonic seconds
    positions: Mapping[Hearing, int]
    ends: Mapping[Hearing, int]
    claimed: frozenset[Hearing] = frozenset()  # by this run
    events: int = 0  # reacted to, known at the end
    commands: int = 0  # sent, known at the end
    seconds: float = 0.0  # that the owners worked, known at the end
    cpu: float = 0.0  # seconds that the tasks took, known at the end

    @property
    def position(self) -> int:
        """All positions together: it rises with every batch."""
        return sum(self.positions.values())

    @property
    def lag(self) -> int:
        """Records below the ends that are not read."""
        return sum(max(0, end - self.positions.get(one, 0)) for one, end in self.ends.items())
