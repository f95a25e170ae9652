"""The plan of a run of process managers, which is sent to its tasks, and the results of tasks: plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import ClaimSlot
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address

#: The subject of notes about process managers.
ABOUT_PROCESSES = "processes"


class Subscription(NamedTuple):
    """An events partition of a process manager; each subscription has one owner."""

    process: str
    source: EventPartition

    @property
    def address(self) -> str:
        """The name that operators use, `PROCESS:AGGREGATE:PARTITION`."""
        return f"{self.process}:{self.source.aggregate}:{self.source.partition}"

    def __str__(self) -> str:
        return f"process {self.process}, {self.source.topic} partition {self.source.partition}"


class EventsTopic(NamedTuple):
    """An events topic in the cluster. `key_space`: the key space when the plan was created, without later splits."""

    topic_id: str
    partitions: int
    key_space: KeySpace

    @property
    def is_repartitioned(self) -> bool:
        """True if its aggregate was repartitioned."""
        return self.key_space.was_repartitioned

    def is_target_partition(self, partition: int) -> bool:
        """Return True for a target partition: other partitions contain earlier events of its keys."""
        return self.key_space.parent(partition) is not None


class CommandsTopic(NamedTuple):
    """A commands topic in the cluster."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One submission of a run, equal for all its tasks."""

    connection: Connection
    prefix: str
    package: str  # the package of the aggregates
    root: Path  # the project folder; on a worker the archive of the process managers
    state_dir: Path
    partitioner: Partitioner
    subscriptions: list[Subscription]
    events: Mapping[str, EventsTopic]  # topic → description
    commands: Mapping[str, CommandsTopic]  # aggregate → description
    request_bytes: int
    run_epoch: int
    run: str
    submission: int = 0
    beginning: bool = False  # True: a new process manager starts at the beginning
    targets: Mapping[Subscription, int] | None = None  # events offset at which `--once` ends
    skips: Mapping[Subscription, int] = field(default_factory=dict)
    losses: Mapping[Subscription, int] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    brokers: int = 1  # number of brokers: each costs an owner's clients some descriptors
    aggregates_root: Path | None = None  # on a worker: the archive of the aggregates
    reports: Address | None = None  # address at which the driver receives the owners' notes

    def claim_slots(self) -> dict[Subscription, ClaimSlot]:
        """Return the claim slot of each subscription."""
        return {subscription: self.claim_slot(subscription) for subscription in self.subscriptions}

    def claim_slot(self, subscription: Subscription) -> ClaimSlot:
        """Return the claim slot of a subscription: the group offset that repeats the owner's position."""
        topics, source = self.topics(subscription), subscription.source
        return ClaimSlot(topics.group, source.topic, source.partition, topics.positions)

    def processes(self) -> list[str]:
        """Return the names of the run's process managers."""
        return list(dict.fromkeys(subscription.process for subscription in self.subscriptions))

    def topics(self, subscription: Subscription) -> ProcessTopics:
        """Return the names of a process manager's topic, group and transactions."""
        return ProcessTopics(subscription.process, self.prefix)

    def status_folder(self, subscription: Subscription) -> Path:
        """Return the folder below `state_dir` for the owner's status files on its machine."""
        source = subscription.source
        return subscription_folder(self.state_dir, self.topics(subscription), source.topic, source.partition)

    def claim(self, subscription: Subscription, attempt: int) -> Claim:
        """Return the claim of a task's attempt, before the attempt has read the committed claim."""
        events_topic = self.events[subscription.source.topic]
        return Claim(
            self.run_epoch,
            self.run,
            self.submission,
            attempt,
            0,
            events_topic.topic_id,
            events_topic.partitions,
        )


def subscription_folder(state_dir: Path, topics: ProcessTopics, topic: str, partition: int) -> Path:
    """Return the folder of a subscription, which corresponds to the shard folder of an aggregate's partition."""
    return state_dir / topics.positions.removesuffix(".positions") / f"{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class ProcessResult(OwnerExit[Subscription]):
    """The result of the owners of a subscription."""

    events: int = 0  # events with a reaction
    commands: int = 0  # commands sent
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch

    @property
    def subject(self) -> str:
        """The same subject for all results, because each note names its process manager."""
        return ABOUT_PROCESSES


@dataclass(frozen=True, slots=True)
class ProcessProgress:
    """The positions of a run's process managers, and the ends of the logs at the last poll."""

    polled_at: float  # time of the last poll, monotonic seconds
    positions: Mapping[Subscription, int]
    ends: Mapping[Subscription, int]
    claimed: frozenset[Subscription] = frozenset()  # subscriptions that this run has claimed
    waiting: frozenset[Subscription] = frozenset()  # target partitions that wait for their parent
    resubmissions: int = 0  # number of resubmitted tasks
    events: int = 0  # known at the end
    commands: int = 0  # known at the end
    seconds: float = 0.0  # duration of the owners' work, known at the end
    cpu: float = 0.0  # CPU seconds of the tasks, known at the end

    def summary(self) -> dict[str, Any]:
        """Return the section about process managers in the JSON document of `run --once`."""
        return {
            "reactions": {
                "events": self.events,
                "commands": self.commands,
                "seconds": round(self.seconds, 3),
            },
            "processes": self.by_process(),
        }

    def by_process(self) -> dict[str, dict[str, Any]]:
        """Return lag and positions, such as `{"checkout": {"lag": 0, "positions": {"order.events": {"0": 7}}}}`."""
        progress: dict[str, dict[str, Any]] = {}
        for subscription, end in sorted(self.ends.items()):
            process = progress.setdefault(subscription.process, {"lag": 0, "positions": {}})
            position = self.positions.get(subscription, 0)
            process["lag"] += max(0, end - position)
            topic_positions = process["positions"].setdefault(subscription.source.topic, {})
            topic_positions[str(subscription.source.partition)] = position
        return progress

    def lags(self) -> dict[str, int]:
        """Return the number of unread records by process manager."""
        return {name: progress["lag"] for name, progress in self.by_process().items()}

    def with_results(self, results: Sequence[ProcessResult]) -> "ProcessProgress":
        """Return the progress at the end of a run, with the counts in its owners' results."""
        if not results:
            return self
        return replace(
            self,
            events=sum(result.events for result in results),
            commands=sum(result.commands for result in results),
            seconds=max(result.ended_at for result in results) - min(result.started_at for result in results),
            cpu=sum(result.cpu_seconds for result in results),
        )

    @property
    def unowned(self) -> list[Subscription]:
        """The subscriptions without a claim of this run, or without a new claim since a task was lost."""
        return [
            subscription
            for subscription in self.ends
            if subscription not in self.claimed and subscription not in self.waiting
        ]

    @property
    def is_listening(self) -> bool:
        """True once every subscription is claimed: then the start is committed, and no later event is skipped."""
        return bool(self.ends) and not self.unowned

    @property
    def position(self) -> int:
        """The sum of all positions; it rises with every batch."""
        return sum(self.positions.values())

    @property
    def lag(self) -> int:
        """Number of unread records before the ends."""
        return sum(self.lags().values())
