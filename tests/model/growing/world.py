"""The whole state of the model: the logs of each partition, its owners, the clients, and the possible faults.

A key is a number, its hash. A Kafka transaction is one step. Only a transaction that forwards takes several steps, and
is open on another partition between them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.core.deferral.entry import EntryKey
from cqrs_cli.keyspace.lineage import PartitionLineage

RecordPosition = tuple[int, int]  # partition and offset


class Sending(NamedTuple):
    """How a client sent a command: as its second command, by the old count 1 of now 2 partitions, as (0, 1, 2, 1)."""

    client: int = 0
    known_count: int = 0  # the partition count in the client's metadata
    topic_count: int = 0  # the partition count of the topics at this time
    number: int = 0  # how many commands the client had sent before


class Command(NamedTuple):
    """A command. `kind` is plain, later (deferred), cancel (of the deferred command `n`) or resubmission."""

    kind: str
    id: str
    key: int
    sending: Sending = Sending()


class Forwarded(NamedTuple):
    """A command in an open transaction. `owner` is None if the transaction was aborted."""

    owner: RecordPosition | None  # partition and epoch
    command: Command


class Event(NamedTuple):
    key: int
    version: int
    id: str
    cause: RecordPosition


class Outcome(NamedTuple):
    offset: int
    status: str
    id: str
    key: int
    entry: str  # the entry that it ends, or empty
    visible: bool = True  # False once retention deletes it


class Entry(NamedTuple):
    """An entry of the deferred topic. `state` is waiting or resubmitted, or one of these and ", cancelled"."""

    id: str
    key: int
    state: str = "waiting"
    resubmitted_at: RecordPosition | None = None


class Memory(NamedTuple):
    """An owner's memory, sorted."""

    states: tuple[tuple[int, int], ...] = ()
    ids: tuple[tuple[tuple[int, str], RecordPosition], ...] = ()
    entries: tuple[tuple[str, Entry], ...] = ()


class Owner(NamedTuple):
    """An owner. `phase` is new, stale (its broker lags), adopt or loop. `partition_count` is the count
    that it has read.
    """

    epoch: int
    partition_count: int
    phase: str
    effective_count: int = 0
    drain_end: int | None = None
    position: int = 0
    memory: Memory = Memory()
    open_outcome: Outcome | None = None  # of a command that is being forwarded: the transaction is open


class Client(NamedTuple):
    known_count: int  # partition count in its metadata
    unsent: tuple[Command, ...]
    sent_count: int = 0


class RemainingFaults(NamedTuple):
    """How often each fault may still happen."""

    starts: tuple[int, ...]  # of owners, by partition
    repartitionings: int = 1
    crashes: int = 1
    stale: int = 0
    compactions: int = 0
    deletions: int = 0


class Partition(NamedTuple):
    """The logs of one partition, and the count in its committed claim."""

    commands: tuple[Command | Forwarded, ...] = ()
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    deferred: tuple[tuple[str, Entry | None] | None, ...] = ()  # None: compacted, but the offset stays
    claim: int = 0  # the count in the claim
    epoch: int = 0
    owners: tuple[Owner, ...] = ()


class World(NamedTuple):
    lineage: PartitionLineage
    partition_count: int
    partitions: tuple[Partition, ...]
    clients: tuple[Client, ...]
    remaining_faults: RemainingFaults

    def changed(self, number: int, **fields: object) -> "World":
        """Return the world with a changed partition."""
        parts = self.partitions
        after = parts[number]._replace(**fields)  # type: ignore[arg-type]
        return self._replace(partitions=(*parts[:number], after, *parts[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """The rules of repartitioning. A test breaks a rule by setting it to False."""

    child_waits: bool = True  # a child decides nothing before the split of its parent
    parent_drains: bool = True  # a parent decides the commands from before the request, then splits
    count_from_lineage: bool = True  # an owner takes the count from the partition history, not from metadata
    checks_claim: bool = True  # an owner stops if its broker returns a lower count than its claim
    partition_in_keys: bool = True  # the key of an entry contains the partition
    resubmission_pauses: bool = True  # a draining parent resubmits no command whose key moves
    imports_entries: bool = True  # a child writes the inherited entries to its own topic
    imports_as_waiting: bool = True  # an inherited entry is not resubmitted yet
    checks_partition: bool = True  # only the partition of a key decides its commands
    forwards: bool = True  # an owner forwards commands whose key has moved
    inherits_ids: bool = True  # a child remembers the ids of its parent
    one_repartitioning_at_a_time: bool = True  # a split covers one repartitioning
    forwards_hop_by_hop: bool = True  # a command is forwarded from parent to child only

    def entry_key(self, partition: int, offset: int) -> str:
        return str(EntryKey("T", offset, partition if self.partition_in_keys else None))


@dataclass(frozen=True)
class Scenario:
    """The commands of clients, and the bounds of the model."""

    name: str
    clients: tuple[tuple[Command, ...], ...]
    starts: tuple[int, ...] = (2, 2)
    counts: tuple[int, ...] = (1, 2)
    crashes: int = 1
    stale: int = 0
    compactions: int = 0
    deletions: int = 0
    fails: bool = False  # a resubmitted command fails

    def first_world(self) -> World:
        first, last = self.counts[0], self.counts[-1]
        clients = tuple(Client(first, sends) for sends in self.clients)
        repartitionings = len(self.counts) - 1
        remaining_faults = RemainingFaults(
            self.starts, repartitionings, self.crashes, self.stale, self.compactions, self.deletions
        )
        return World(
            PartitionLineage((first,)), first, (Partition(claim=first),) * last, clients, remaining_faults
        )
