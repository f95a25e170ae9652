"""The plan of a run's process managers, which the driver sends to the tasks, and the tasks' results and progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cqrs_cli.following.plan import SubscriptionPlan, SubscriptionProgress
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import ClaimSlot
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address


class Subscription(NamedTuple):
    """A process manager and an events partition that it reads. Each subscription has one owner."""

    process: str  # name of the process manager
    source: EventPartition

    @property
    def address(self) -> str:
        """The name that operators use, `PROCESS:AGGREGATE:PARTITION`."""
        return f"{self.process}:{self.source.aggregate}:{self.source.partition}"

    def __str__(self) -> str:
        return f"process {self.process}, {self.source.topic} partition {self.source.partition}"


class OutputTopic(NamedTuple):
    """A topic in the cluster that process managers write to, such as a commands topic."""

    topic: str  # name with prefix
    partitions: int  # partition count


@dataclass(frozen=True, slots=True)
class ProcessPlan(SubscriptionPlan):
    """The plan of a run's process managers for one Spark job. All tasks of the job get the same plan."""

    prefix: str  # the setting `topic_prefix`
    state_dir: Path
    subscriptions: list[Subscription]
    outputs: Mapping[str, OutputTopic]  # topic without prefix → description
    request_bytes: int  # maximum bytes of one produce request, before compression
    run_epoch: int  # orders the runs: a run with a higher epoch takes over
    run: str  # the id of the run
    submission: int = 0  # the number of the Spark job within the run, from 0
    #: True: a new process manager starts at the beginning of the log, else at its end.
    from_beginning: bool = False
    #: Subscription → events offset at which a run with `--once` ends; None: the run does not end.
    end_offsets: Mapping[Subscription, int] | None = None
    #: Subscription → offset of the event to skip (`--skip`).
    skips: Mapping[Subscription, int] = field(default_factory=dict)
    actor: str = ""  # the operator who skips the events in `skips`
    #: Subscription → offset at which to continue after a loss (`--accept-loss`).
    losses: Mapping[Subscription, int] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    brokers: int = 1  # number of brokers; an owner's clients need some file descriptors for each broker
    aggregates_root: Path | None = None  # on a worker: the archive of the aggregates
    reports: Address | None = None  # address at which the driver receives the owners' notes

    def claim_slots(self) -> dict[Subscription, ClaimSlot]:
        """Return the claim slot of each subscription."""
        return {subscription: self.claim_slot(subscription) for subscription in self.subscriptions}

    def claim_slot(self, subscription: Subscription) -> ClaimSlot:
        """Return the claim slot of a subscription: the group's committed offset, whose metadata contain the claim."""
        topics, source = self.topics(subscription), subscription.source
        return ClaimSlot(topics.group, source.topic, source.partition, topics.positions_topic)

    def processes(self) -> list[str]:
        """Return the names of the run's process managers."""
        return list(dict.fromkeys(subscription.process for subscription in self.subscriptions))

    def topics(self, subscription: Subscription) -> ProcessTopics:
        """Return the names of the process manager's positions topic, consumer group and transactional ids."""
        return ProcessTopics(subscription.process, self.prefix)

    def status_folder(self, subscription: Subscription) -> Path:
        """Return the folder below `state_dir` for the owner's status files on its machine."""
        source = subscription.source
        return subscription_folder(self.state_dir, self.topics(subscription), source.topic, source.partition)

    def claim(self, subscription: Subscription, attempt: int) -> Claim:
        """Return the first claim of a task's attempt. Its number is 0 until the owner has read the committed claim."""
        events_topic = self.events_topics[subscription.source.topic]
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
    """Return the folder for the status files of a subscription's owner. `topic`, `partition`: the events partition."""
    return state_dir / topics.positions_topic.removesuffix(".positions") / f"{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class ProcessResult(OwnerExit[Subscription]):
    """The result of a subscription in one task, summed over its successive owners."""

    events: int = 0  # number of events for which `react` was called
    commands: int = 0  # number of commands that were sent
    started_at: float = 0.0  # seconds since the epoch
    ended_at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ProcessProgress(SubscriptionProgress[Subscription]):
    """The progress of a run's process managers."""

    claimed: frozenset[Subscription] = frozenset()  # subscriptions that this run has claimed
    #: Child partitions whose parent is not at the split yet.
    waiting_children: frozenset[Subscription] = frozenset()
    commands: int = 0  # number of commands that were sent; 0 until the run ends
    cpu: float = 0.0  # CPU seconds of the tasks; 0 until the run ends

    def summary(self) -> dict[str, Any]:
        """Return the members about process managers of the JSON document of `run --once`."""
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
        for subscription, lag in sorted(self.partition_lags.items()):
            process = progress.setdefault(subscription.process, {"lag": 0, "positions": {}})
            position = self.positions.get(subscription, 0)
            process["lag"] += lag
            topic_positions = process["positions"].setdefault(subscription.source.topic, {})
            topic_positions[str(subscription.source.partition)] = position
        return progress

    def lags(self) -> dict[str, int]:
        """Return the name of each process manager → number of unread records in all its partitions."""
        return {name: progress["lag"] for name, progress in self.by_process().items()}

    @property
    def unowned(self) -> list[Subscription]:
        """The subscriptions that this run has not claimed yet, or must claim again after it has lost a task. Child
        partitions that wait for their parent do not count.
        """
        return [
            subscription
            for subscription in self.ends
            if subscription not in self.claimed and subscription not in self.waiting_children
        ]

    @property
    def is_listening(self) -> bool:
        """True once every subscription is claimed. With its claim, an owner commits its position, so no later event is
        skipped.
        """
        return bool(self.ends) and not self.unowned
