"""The status of a partition of commands, or of events that a process manager or projection reads."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.following.last_error import LastError
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.ownership.claim import TERMINAL, Claim, Counts
from cqrs_cli.telemetry.status_file import SlowCommand


class PartitionKind(NamedTuple):
    """The kind of work in a partition: its commands are decided, or its events are reacted to or projected.

    The attributes are texts for tables and metrics.
    """

    title: str  # header of the first column, which names the partition
    unit: str  # the messages that are read: "commands"
    participle: str  # what happens to a message: "decided", "reacted to"
    prefix: str  # prefix of metric names
    label_names: tuple[str, ...]  # labels of metrics

    @property
    def placeholder_values(self) -> dict[str, str]:
        """Values for the placeholders in headers and metrics: `unit`, `Unit`, `participle`, and `done`, which is the
        participle without its preposition ("decided", "reacted").
        """
        done = self.participle.removesuffix(" to")
        return {
            "unit": self.unit,
            "Unit": self.unit.capitalize(),
            "participle": self.participle,
            "done": done,
        }


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
    silent_seconds: int | None = None  # since the last heartbeat of a silent run; None for other runs

    def __str__(self) -> str:
        if self.silent_seconds is not None:
            return f"{self.run} (silent for {self.silent_seconds:,} s)"
        return f"{self.run} (stopped)" if self.stopped else self.run


class ShardStatus(NamedTuple):
    """The size of a shard on this machine."""

    aggregates: int  # number of aggregates
    bytes: int  # on disk
    digest: int | None  # sum of the digests of its states; None unless requested


class Rates(NamedTuple):
    """Rates of a partition between two polls. All are per second, except `batch` and `commit_ms`, which are averages.

    An owner that committed nothing between the polls has neither `batch` nor `commit_ms`.
    """

    sent: float | None  # records appended to the log; None if only the owners were polled
    done: float  # records decided, reacted to or projected
    rejected: float  # commands rejected or failed
    transactions: float = 0.0
    batch: float | None = None  # commands per transaction
    commit_ms: float | None = None  # milliseconds per commit of a transaction


class PartitionStatus(Struct, frozen=True):
    """The status of a partition, as of one poll. Values that the poll did not read are None or empty.

    A struct, because the console replaces the rates of 1,000 partitions once a second.
    """

    kind: PartitionKind
    name: str  # name of the aggregate, the process or the projection
    aggregate: str  # the aggregate to which the log belongs
    topic: str
    partition: int
    polled_at: float = 0.0  # monotonic seconds
    start: int | None = None  # first offset of the log
    end: int | None = None  # offset after the last record of the log; None if the topic is gone
    #: Offset of the next record to decide, react to or project; None before an owner has stored a position.
    position: int | None = None
    #: Offsets from `position` to `end`: an upper bound of the records to do. None if the topic is gone.
    lag: int | None = None
    owner: PartitionOwner | None = None
    is_owned: bool | None = None  # True: an active run has claimed the partition
    repartitioning_stage: str | None = None  # None if the aggregate is not being repartitioned
    standbys: tuple[str, ...] = ()  # ids of the standby runs for this partition
    idle_reason: str = ""  # why there is no progress; set only if a run reports on its own partitions
    topic_id: str | None = None  # id of the topic that the owner claimed
    counts: Counts | None = None  # counts of decisions since the owner's run began
    rates: Rates | None = None
    suspect_text: str | None = None  # names the record on which workers may be dying
    #: The command whose decision takes long. Known only if the owner is on this machine.
    slow_command: SlowCommand | None = None
    #: Why the owner waits although there is lag. Known only if the owner is on this machine.
    wait_reason: str | None = None
    #: A client's open transaction that hides the last commands.
    hiding_transaction: OpenTransaction | None = None
    stopped_at: int | None = None  # offset of the event at which the process manager stopped
    last_error: LastError | None = None  # of a process manager or projection; None after its next success
    rebuild_error: LastError | None = None  # of the run that fills a projection's shadow tables
    #: The command line that ends `hiding_transaction`, or skips the event `stopped_at`.
    remedy_command: str = ""
    store: str = ""  # the setting `store`: "lmdb" or "memory"
    shard: ShardStatus | None = None  # None if this machine has no shard of the partition
    oldest_timestamp: int | None = None  # of the append of the first undecided command, ms since the epoch
    oldest_age_ms: int | None = None  # time since `oldest_timestamp`, as of this poll
    #: Time from append to commit, of the last command decided since the previous poll.
    latency_ms: int | None = None
    #: Reason or code → number of outcomes since the previous poll.
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def poll_key(self) -> tuple[str, str, str, int]:
        """A key by which polls are compared: equal in every poll, and unique among the partitions."""
        return self.kind.title, self.name, self.topic, self.partition

    @property
    def group_name(self) -> str:
        """The aggregate; or the process or projection with its source: `checkout < order`. Tables sum by this name."""
        match self.kind.title:
            case "partition":
                return self.name
            case "process":
                return f"{self.name} < {self.aggregate}"
        return f"{self.name} < {self.topic}"

    @property
    def label(self) -> str:
        """The name of the partition for people."""
        return f"{self.group_name} {self.partition}"

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
        hidden_text = stopped_text = ""
        if self.hiding_transaction is not None:
            hidden_text = f"{self.hiding_transaction.hidden_records_message()}; {self.remedy_command}"
        if self.stopped_at is not None:
            reason = "" if self.last_error is None else f" ({self.last_error.message})"
            stopped_text = (
                f"process {self.name} was stopped by {self.topic}:{self.partition}@{self.stopped_at}{reason};"
                f" correct it, or leave the event out: {self.remedy_command}"
            )
        elif self.last_error is not None:
            stopped_text = f"at {rfc3339(self.last_error.time)}: {self.last_error.message}"
        rebuild = self.rebuild_error
        rebuild_text = f"rebuild failed at {rfc3339(rebuild.time)}: {rebuild.message}" if rebuild else ""
        suspect_text = self.suspect_text if self.lag and not stopped_text else ""
        slow_text = "" if self.slow_command is None else str(self.slow_command)
        wait_text = f"it waits: {self.wait_reason}" if self.wait_reason else ""
        texts = (hidden_text, stopped_text, rebuild_text, suspect_text, slow_text, wait_text)
        return [text for text in texts if text]


def idle_partitions(statuses: Iterable[PartitionStatus]) -> dict[str, str]:
    """Return the partitions without progress at present, by key, each with the reason: the answer of `/readyz`."""
    sorted_statuses = sorted(
        statuses, key=lambda status: (PARTITION_KINDS.index(status.kind), status.poll_key)
    )
    return {status.ready_key: status.idle_reason for status in sorted_statuses if status.idle_reason}


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
        f"{status.group_name}: its run {status.owner}": None
        for status in statuses
        if status.owner is not None and status.owner.silent_seconds is not None
    }
    return list(texts)
