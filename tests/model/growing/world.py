"""The whole state of the model: the logs of each partition, its owners, the clients, and the possible faults.

A key is a number, its hash. A Kafka transaction is one step. Only a transaction that forwards takes several steps, and
is open on another partition between them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.core.deferral.entry import EntryKey
from cqrs_cli.core.lineage import PartitionLineage

RecordPosition = tuple[int, int]  # partition and offset


class Command(NamedTuple):
    """A command. `what` is plain, later (deferred), cancel (of the deferred command) or again (its resubmission)."""

    what: str
    id: str
    key: int
    sent: tuple[int, int, int, int] = (
        0,
        0,
        0,
        0,
    )  # client, its count, the topics' count, its number


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
    """An entry. `state` is parked or said, or one of these with "cancelled"."""

    id: str
    key: int
    state: str = "parked"
    resubmitted_at: RecordPosition | None = None


class Memory(NamedTuple):
    """An owner's memory, sorted."""

    states: tuple[tuple[int, int], ...] = ()
    ids: tuple[tuple[tuple[int, str], RecordPosition], ...] = ()
    entries: tuple[tuple[str, Entry], ...] = ()


class OpenForward(NamedTuple):
    """A transaction that forwards."""

    partition: int
    outcome: Outcome


class Owner(NamedTuple):
    """An owner. `phase` is new, stale (its broker lags), adopt or loop. `partition_count` is the count
    that it has read.
    """

    epoch: int
    partition_count: int
    phase: str
    effective_count: int = 0
    settled_at: int | None = None
    position: int = 0
    memory: Memory = Memory()
    open: OpenForward | None = None


class Client(NamedTuple):
    known_count: int  # partition count in its metadata
    unsent: tuple[Command, ...]
    number: int = 0


class RemainingFaults(NamedTuple):
    """How often each fault may still happen."""

    starts: tuple[int, ...]
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
    deferred: tuple[tuple[str, Entry | None] | None, ...] = ()  # None if compacted, the offset stays
    claim: int = 0  # the count in the claim
    epoch: int = 0
    owners: tuple[Owner, ...] = ()


class World(NamedTuple):
    lineage: PartitionLineage
    partition_count: int
    partitions: tuple[Partition, ...]
    clients: tuple[Client, ...]
    remaining_faults: RemainingFaults

    def changed(self, number: int, **what: object) -> "World":
        """Return the world with a changed partition."""
        parts = self.partitions
        after = parts[number]._replace(**what)  # type: ignore[arg-type]
        return self._replace(partitions=(*parts[:number], after, *parts[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """Every rule of repartitioning in the model. A test breaks one of them."""

    wait: bool = True  # a target decides nothing before its parent has split
    settle: bool = True  # commands sent before the repartitioning are decided before the split
    count_from_lineage: bool = True  # not from metadata
    claim: bool = True  # an owner stops if its broker returns less than the claim has
    partition_in_keys: bool = True
    silence: bool = True  # no command that moves is resubmitted while draining
    adopt: bool = True  # imported entries are written into the target's own topic
    park_inherited: bool = True
    home: bool = True  # only the key's partition decides
    forward: bool = True
    inherit_ids: bool = True
    one_growth_at_a_time: bool = True
    hop_by_hop: bool = True

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
