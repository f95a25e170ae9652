"""The plan of a run of processes, which travels to its tasks, and what they hand back: plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.ending import Ending
from cqrs_cli.ownership.standing import Seat
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address

#: The notes of all processes are about this.
ABOUT_PROCESSES = "processes"


class Subscription(NamedTuple):
    """A partition of events that a process hears: it has one owner."""

    process: str
    source: EventPartition

    @property
    def place(self) -> str:
        """The name that operators give it."""
        return f"{self.process}:{self.source.aggregate}:{self.source.partition}"

    def __str__(self) -> str:
        return f"process {self.process}, {self.source.topic} partition {self.source.partition}"


class EventsTopic(NamedTuple):
    """A topic of events as the cluster has it. `first`: the partitions that it had before it ever grew."""

    topic_id: str
    partitions: int
    first: int | None = None

    @property
    def has_grown(self) -> bool:
        """True if its aggregate has a lineage."""
        return self.first is not None

    def is_inherited(self, partition: int) -> bool:
        """True for a partition that came by a growth: events of its keys are in others, too."""
        return self.first is not None and partition >= self.first


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
    root: Path  # of the project; on a worker the archive of its processes
    state_dir: Path
    partitioner: Partitioner
    subscriptions: list[Subscription]
    events: Mapping[str, EventsTopic]  # by topic
    commands: Mapping[str, CommandsTopic]  # by aggregate
    request_bytes: int
    run_epoch: int
    run: str
    submission: int = 0
    beginning: bool = False  # where a new process begins
    targets: Mapping[Subscription, int] | None = None  # where `--once` ends: events offset
    skips: Mapping[Subscription, int] = field(default_factory=dict)
    losses: Mapping[Subscription, int] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    brokers: int = 1  # of the cluster: each costs an owner's clients some descriptors
    aggregates_root: Path | None = None  # on a worker: where the aggregates lie
    reports: Address | None = None  # where the driver takes what its owners note while they work

    def seats(self) -> dict[Subscription, Seat]:
        """The places at which the owners repeat their positions."""
        return {at: self.seat(at) for at in self.subscriptions}

    def seat(self, subscription: Subscription) -> Seat:
        """The place at which the owner of a subscription repeats its position."""
        topics, source = self.topics(subscription), subscription.source
        return Seat(topics.group, source.topic, source.partition, topics.positions)

    def processes(self) -> list[str]:
        """The names of the run's processes."""
        return list(dict.fromkeys(subscription.process for subscription in self.subscriptions))

    def topics(self, subscription: Subscription) -> ProcessTopics:
        """The names of a process's topic, group and transactions."""
        return ProcessTopics(subscription.process, self.prefix)

    def place(self, subscription: Subscription) -> Path:
        """The place below `state_dir` of what an owner says on its machine."""
        source = subscription.source
        return subscription_place(self.state_dir, self.topics(subscription), source.topic, source.partition)

    def claim(self, subscription: Subscription, attempt: int) -> Claim:
        """The claim of a task's attempt, before it has seen the committed one."""
        found = self.events[subscription.source.topic]
        return Claim(self.run_epoch, self.run, self.submission, attempt, 0, found.topic_id, found.partitions)


def subscription_place(state_dir: Path, topics: ProcessTopics, topic: str, partition: int) -> Path:
    """The place of a process that hears a partition of events, as a shard is that of an aggregate's partition."""
    return state_dir / topics.positions.removesuffix(".positions") / f"{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class ProcessResult(Ending[Subscription]):
    """The end of owners that react."""

    events: int = 0  # reacted to
    commands: int = 0  # sent
    began: float = 0.0  # seconds since the epoch
    ended: float = 0.0

    @property
    def about(self) -> str:
        """One for all: each note names the process."""
        return ABOUT_PROCESSES


@dataclass(frozen=True, slots=True)
class ProcessProgress:
    """The positions of a run's processes, and the ends of the logs as they were seen last."""

    at: float  # monotonic seconds
    positions: Mapping[Subscription, int]
    ends: Mapping[Subscription, int]
    claimed: frozenset[Subscription] = frozenset()  # by this run
    waiting: frozenset[Subscription] = frozenset()  # until the partitions that had their keys are heard
    again: int = 0  # tasks of the run that were submitted again
    events: int = 0  # reacted to, known at the end
    commands: int = 0  # sent, known at the end
    seconds: float = 0.0  # that the owners worked, known at the end
    cpu: float = 0.0  # seconds that the tasks took, known at the end

    def summary(self) -> dict[str, Any]:
        """The part of the processes in the document that `run --once` prints."""
        return {
            "reactions": {
                "events": self.events,
                "commands": self.commands,
                "seconds": round(self.seconds, 3),
            },
            "processes": self.by_process(),
        }

    def by_process(self) -> dict[str, dict[str, Any]]:
        """The position in each partition and the lag, for programs."""
        found: dict[str, dict[str, Any]] = {}
        for subscription, end in sorted(self.ends.items()):
            process = found.setdefault(subscription.process, {"lag": 0, "positions": {}})
            position = self.positions.get(subscription, 0)
            process["lag"] += max(0, end - position)
            process["positions"].setdefault(subscription.source.topic, {})[
                str(subscription.source.partition)
            ] = position
        return found

    def lags(self) -> dict[str, int]:
        """The records that each process has not read."""
        return {name: one["lag"] for name, one in self.by_process().items()}

    def ended(self, results: Sequence[ProcessResult]) -> "ProcessProgress":
        """The progress at the end of a run, with what its owners say of themselves."""
        if not results:
            return self
        return replace(
            self,
            events=sum(result.events for result in results),
            commands=sum(result.commands for result in results),
            seconds=max(result.ended for result in results) - min(result.began for result in results),
            cpu=sum(result.cpu for result in results),
        )

    @property
    def unowned(self) -> list[Subscription]:
        """The partitions that this run has not claimed, or not again since a task was lost."""
        return [one for one in self.ends if one not in self.claimed and one not in self.waiting]

    @property
    def listens(self) -> bool:
        """True once each partition has been claimed: the start is committed, and every event from it on counts."""
        return bool(self.ends) and not self.unowned

    @property
    def position(self) -> int:
        """All positions together: it rises with every batch."""
        return sum(self.positions.values())

    @property
    def lag(self) -> int:
        """Records below the ends that are not read."""
        return sum(max(0, end - self.positions.get(one, 0)) for one, end in self.ends.items())
