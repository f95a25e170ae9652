"""Everything at one moment: the logs of each partition, its owners, the clients, and what may still go wrong.

A key is a number, its hash. A Kafka transaction is one step, but for one that forwards: it is open on another
partition meanwhile.
"""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.core.deferral.entry import EntryKey
from cqrs_cli.core.lineage import PartitionLineage

Place = tuple[int, int]  # partition and offset


class Command(NamedTuple):
    """`what`: plain, later (it waits for its time), cancel (of the one that waits), again (an owner's)."""

    what: str
    id: str
    key: int
    sent: tuple[int, int, int, int] = (
        0,
        0,
        0,
        0,
    )  # by client, with this count, while the topics had, its number


class Forwarded(NamedTuple):
    """A command in an open transaction; aborted if `owner` is None."""

    owner: Place | None  # partition and epoch
    command: Command


class Event(NamedTuple):
    key: int
    version: int
    id: str
    cause: Place


class Outcome(NamedTuple):
    offset: int
    status: str
    id: str
    key: int
    entry: str  # the entry that it ends, empty for none
    visible: bool = True  # until retention deletes it


class Entry(NamedTuple):
    """`state`: parked, said, or the same and cancelled."""

    id: str
    key: int
    state: str = "parked"
    said: Place | None = None


class Memory(NamedTuple):
    """An owner's knowledge, sorted."""

    states: tuple[tuple[int, int], ...] = ()
    ids: tuple[tuple[tuple[int, str], Place], ...] = ()
    entries: tuple[tuple[str, Entry], ...] = ()


class Open(NamedTuple):
    """A transaction that forwards."""

    partition: int
    outcome: Outcome


class Owner(NamedTuple):
    """`phase`: new, stale (its broker is behind), adopt, loop. `there`: partitions of the topics, as it was told."""

    epoch: int
    there: int
    phase: str
    judging: int = 0  # the count
    settled_at: int | None = None
    position: int = 0
    memory: Memory = Memory()
    open: Open | None = None


class Client(NamedTuple):
    knows: int  # partitions, by its metadata
    sends: tuple[Command, ...]
    number: int = 0


class Left(NamedTuple):
    """How often it may still happen."""

    starts: tuple[int, ...]
    grows: int = 1
    crashes: int = 1
    stale: int = 0
    compactions: int = 0
    deletions: int = 0


class Partition(NamedTuple):
    """The logs of one partition, and what its group has committed."""

    commands: tuple[Command | Forwarded, ...] = ()
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    deferred: tuple[tuple[str, Entry | None] | None, ...] = ()  # None: compacted, its offset stays
    claim: int = 0  # the count in the claim
    epoch: int = 0
    owners: tuple[Owner, ...] = ()


class World(NamedTuple):
    lineage: PartitionLineage
    there: int
    partitions: tuple[Partition, ...]
    clients: tuple[Client, ...]
    left: Left

    def changed(self, number: int, **what: object) -> "World":
        """With another partition under this number."""
        parts = self.partitions
        after = parts[number]._replace(**what)  # type: ignore[arg-type]
        return self._replace(partitions=(*parts[:number], after, *parts[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """Every rule of growing; a test breaks one."""

    wait: bool = True  # a child decides nothing before its parent has split
    settle: bool = True  # what was sent before the growth is decided before the split
    count_from_lineage: bool = True  # and not from metadata
    claim: bool = True  # an owner whose broker knows less than the claim goes no further
    partition_in_keys: bool = True
    silence: bool = True  # nothing that moves is said again while settling
    adopt: bool = True  # inherited entries are written into the child's own topic
    park_inherited: bool = True
    home: bool = True  # only the key's home decides
    forward: bool = True
    inherit_ids: bool = True
    one_growth_at_a_time: bool = True
    hop_by_hop: bool = True

    def entry_key(self, partition: int, offset: int) -> str:
        return str(EntryKey("T", offset, partition if self.partition_in_keys else None))


@dataclass(frozen=True)
class Scenario:
    """The commands of clients, and the bounds."""

    name: str
    clients: tuple[tuple[Command, ...], ...]
    starts: tuple[int, ...] = (2, 2)
    counts: tuple[int, ...] = (1, 2)
    crashes: int = 1
    stale: int = 0
    compactions: int = 0
    deletions: int = 0
    fails: bool = False  # a command that is said again fails

    def beginning(self) -> World:
        first, last = self.counts[0], self.counts[-1]
        clients = tuple(Client(first, sends) for sends in self.clients)
        grows = len(self.counts) - 1
        left = Left(self.starts, grows, self.crashes, self.stale, self.compactions, self.deletions)
        return World(PartitionLineage((first,)), first, (Partition(claim=first),) * last, clients, left)
