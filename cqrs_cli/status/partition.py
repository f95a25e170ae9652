"""The status of a partition in which commands are decided, or events are reacted to or projected."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.ownership.claim import TERMINAL, Claim, Counts
from cqrs_cli.ownership.trials.slow_command import SlowCommand


class PartitionKind(NamedTuple):
    """The work in a partition: decide, react or project. With the texts for tables and metrics."""

    title: str  # the header of the column of names
    unit: str  # the messages of the log: "commands"
    passive: str  # the participle for a finished message: "events are reacted to"
    prefix: str  # the prefix of metric names
    label_names: tuple[str, ...]  # the labels of metrics

    @property
    def words(self) -> dict[str, str]:
        """The values for the braces in headers, names and help texts: `{done}` is "decided" or "reacted"."""
        done = self.passive.removesuffix(" to")
        return {"unit": self.unit, "Unit": self.unit.capitalize(), "passive": self.passive, "done": done}


AGGREGATE = PartitionKind("partition", "commands", "decided", "cqrs_", ("aggregate", "partition"))
PROCESS = PartitionKind(
    "process", "events", "reacted to", "cqrs_process_", ("process", "aggregate", "partition")
)
PROJECTION = PartitionKind(
    "projection", "events", "projected", "cqrs_projection_", ("projection", "aggregate", "partition")
)

PARTITION_KINDS = (AGGREGATE, PROCESS, PROJECTION)


class PartitionOwner(NamedTuple):
    """The current or last run of a partition."""

    run: str
    since: int | None = None  # ms since the epoch, when the run began
    stopped: bool = False  # True: the run has ended cleanly
    silent_seconds: int | None = None  # since its last heartbeat; None if it sends heartbeats

    def __str__(self) -> str:
        if self.silent_seconds is not None:
            return f"{self.run} (silent for {self.silent_seconds:,} s)"
        return f"{self.run} (stopped)" if self.stopped else self.run


class ShardStatus(NamedTuple):
    """A shard on this machine: aggregates, bytes on disk, and (if requested) the sum of the digests of its states."""

    aggregates: int
    bytes: int
    digest: int | None


class Rates(NamedTuple):
    """Records per second between two polls: sent to the log, done, and rejected or failed (`rejected`).

    `sent` is None if only the owners were polled. An owner that committed nothing has no `batch` and no `commit_ms`.
    """

    sent: float | None
    done: float
    rejected: float
    transactions: float = 0.0
    batch: float | None = None  # commands per transaction
    commit_ms: float | None = None  # milliseconds per commit of a transaction


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition at one moment. The log spans `start` to `end`; all records before `position` are done.

    `position` is None before the first record is done. `end` and `lag` are None if the topic is gone.
    """

    kind: PartitionKind
    name: str  # name of the aggregate, the process or the projection
    aggregate: str  # the aggregate to which the log belongs
    topic: str
    partition: int
    polled_at: float = 0.0  # monotonic seconds
    start: int | None = None
    end: int | None = None
    position: int | None = None
    lag: int | None = None  # records that are not done; an upper bound, as offsets have gaps
    owner: PartitionOwner | None = None
    owned: bool | None = None  # True: an active run has claimed the partition
    growth: str | None = None  # the stage of a repartitioning in this partition
    standbys: tuple[str, ...] = ()  # standby runs for this partition
    idle: str = ""  # why there is no progress, as far as the polled run knows
    topic_id: str | None = None  # the id of the topic that the owner claimed
    counts: Counts | None = None  # the counts of decisions since the owner's run began
    rates: Rates | None = None
    trial: str | None = None  # a record on which workers may be dying
    slow: SlowCommand | None = None  # a command whose decision takes long, if the owner is on this machine
    waits_for: str | None = None  # the reason why the owner waits, if it is on this machine and has lag
    hidden_by: OpenTransaction | None = None  # the open transaction that hides the last commands
    stopped_at: int | None = None  # the event at which the process stopped
    way_out: str = ""  # the command that ends the transaction `hidden_by`, or skips the event `stopped_at`
    store: str = ""  # the setting `store`: "lmdb" or "memory"
    shard: ShardStatus | None = None
    oldest: int | None = None  # ms since the append of the first undecided command
    latency: int | None = None  # ms, of the last command decided since the previous poll
    #: Reason or code → number of outcomes since the previous poll.
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """The key of the partition, which is the same in every poll."""
        return self.kind.title, self.name, self.topic, self.partition

    @property
    def subject(self) -> str:
        """The aggregate; or the process or projection with its source: `checkout < order`. Tables sum by subject."""
        match self.kind.title:
            case "partition":
                return self.name
            case "process":
                return f"{self.name} < {self.aggregate}"
        return f"{self.name} < {self.topic}"

    @property
    def label(self) -> str:
        """The name of the partition for people."""
        return f"{self.subject} {self.partition}"

    @property
    def ready_key(self) -> str:
        """The name of the partition in the answer of `/readyz`."""
        return ":".join([*([self.name] if self.kind is PROCESS else []), self.aggregate, str(self.partition)])

    def label_values(self) -> list[str]:
        """Return the values of `PartitionKind.label_names`."""
        labels = [self.aggregate, str(self.partition)]
        return labels if self.kind is AGGREGATE else [self.name, *labels]

    def remarks(self) -> list[str]:
        """Return remarks for an operator, each with a remedy."""
        hidden_text = f"{self.hidden_by.hidden_records_message()}; {self.way_out}" if self.hidden_by else ""
        stopped_text = ""
        if self.stopped_at is not None:
            stopped_text = (
                f"process {self.name} was stopped by {self.topic}:{self.partition}@{self.stopped_at};"
                f" correct it, or leave the event out: {self.way_out}"
            )
        trial_text = self.trial if self.lag and not stopped_text else None
        slow_text = "" if self.slow is None else str(self.slow)
        wait_text = f"it waits: {self.waits_for}" if self.waits_for else ""
        return [text for text in (hidden_text, stopped_text, trial_text, slow_text, wait_text) if text]


def idle_partitions(statuses: Iterable[PartitionStatus]) -> dict[str, str]:
    """Return the partitions without progress at present, by key, each with the reason: the answer of `/readyz`."""
    sorted_statuses = sorted(
        statuses, key=lambda status: (PARTITION_KINDS.index(status.kind), status.identity)
    )
    return {status.ready_key: status.idle for status in sorted_statuses if status.idle}


def standbys_by_name(statuses: Iterable[PartitionStatus]) -> dict[str, list[str]]:
    """Return the standby runs by the name of the aggregate or process that they would take over."""
    runs_by_name: dict[str, set[str]] = {}
    for status in statuses:
        if status.standbys:
            runs_by_name.setdefault(status.name, set()).update(status.standbys)
    return {name: sorted(runs) for name, runs in runs_by_name.items()}


def owner_of(
    claim: Claim | None, silence: Mapping[str, float] = MappingProxyType({})
) -> PartitionOwner | None:
    """Return the owner that a claim names. `silence`: the seconds without a heartbeat of each silent run."""
    if claim is None:
        return None
    stopped, seconds = claim.attempt == TERMINAL, silence.get(claim.run)
    silent_seconds = None if stopped or seconds is None else int(seconds)
    return PartitionOwner(claim.run, claim.run_epoch, stopped, silent_seconds)


def silent_owners(statuses: Iterable[PartitionStatus]) -> list[str]:
    """Return a text about each aggregate or process whose owner has stopped sending heartbeats."""
    # The keys of a dict, because several partitions may have the same text.
    texts = {
        f"{status.subject}: its run {status.owner}": None
        for status in statuses
        if status.owner is not None and status.owner.silent_seconds is not None
    }
    return list(texts)
