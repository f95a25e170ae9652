"""The whole state of the model: the logs, the owner, copies of its state, a projection, and the possible faults."""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.keys.topic import KeyTable, WrappedKey
from tests.model.erasing.note import Note, data_of


class Command(NamedTuple):
    """A command. `what` is write, erase, park (a deferred write) or again (its resubmission by an owner)."""

    what: str
    id: str
    text: str = ""


class Event(NamedTuple):
    type: str
    data: bytes  # as in the log: encrypted


class Outcome(NamedTuple):
    offset: int
    status: str
    id: str
    fingerprint: int


class CompactedRecord(NamedTuple):
    """A record of the keys that compaction has removed. Its offset stays."""


KeyRecord = WrappedKey | CompactedRecord | None


class Parked(NamedTuple):
    data: bytes  # encrypted
    at: int  # the offset of the command
    resubmitted_at: int | None = None  # the offset of its resubmission


class Memory(NamedTuple):
    state: Note = Note()
    known: KeyTable = KeyTable()
    ids: tuple[tuple[str, int], ...] = ()  # remembered ids with their fingerprints


class OpenTransaction(NamedTuple):
    """An uncommitted transaction, and the memory after it.

    `later` is true if a tombstone is written after its commit.
    """

    events: tuple[Event, ...]
    outcomes: tuple[Outcome, ...]
    keys: tuple[KeyRecord, ...]
    parked: Parked | None
    position: int
    memory: Memory
    later: bool = False


class Owner(NamedTuple):
    position: int
    memory: Memory
    open: OpenTransaction | None = None
    owes_tombstone: bool = False


class Cache(NamedTuple):
    """The keys in an owner's cache on disk. `keys` is the number of records read of the topic."""

    known: KeyTable = KeyTable()
    keys: int = 0


class Copy(NamedTuple):
    """A shard or a checkpoint.

    `events` is the number of folded events, `cache` belongs to the machine that opens it.
    """

    events: int
    state: bytes
    cache: Cache = Cache()


NOTHING = Copy(0, data_of(""))


class Projection(NamedTuple):
    events: int = 0
    known: KeyTable = KeyTable()
    keys: int = 0
    rows: frozenset[str] = frozenset()


class RemainingFaults(NamedTuple):
    """How often each fault may still happen.

    `rewraps` counts the owner's re-wraps, or is the key that a tool has read.
    """

    starts: int
    crashes: int
    losses: int
    checkpoints: int
    compactions: int
    restores: int
    rewraps: int | WrappedKey


class Backup(NamedTuple):
    commands: tuple[Command, ...]
    events: tuple[Event, ...]
    outcomes: tuple[Outcome, ...]
    keys: tuple[KeyRecord, ...]
    parked: Parked | None


class World(NamedTuple):
    todo: tuple[Command, ...]
    remaining_faults: RemainingFaults
    commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    visible_ends: tuple[int, int] = (0, 0)  # events and keys that readers see, which appear one by one
    parked: Parked | None = None
    owner: Owner | None = None
    shard: Copy | None = None
    cache: Cache = Cache()  # next to the shard
    checkpoint: Copy | None = None
    projection: Projection = Projection()
    drawn: int = 1  # number of keys so far
    backup: Backup | None = None

    def spend(self, **less: int | WrappedKey) -> RemainingFaults:
        """Return the faults that remain after these."""
        return self.remaining_faults._replace(**less)  # type: ignore[arg-type]

    @property
    def copies(self) -> dict[str, Copy]:
        """The copies from which an owner may start, by name."""
        copies = {"nothing": NOTHING}
        if self.checkpoint is not None:
            copies["a checkpoint"] = self.checkpoint
        if self.shard is not None:
            copies["its shard"] = self.shard._replace(cache=self.cache)
        return copies

    @property
    def is_erased(self) -> bool:
        """True if an erasure was requested."""
        return any(command.what == "erase" for command in self.commands)


@dataclass(frozen=True)
class Rules:
    """Every rule of erasing in the model. A test breaks one of them."""

    one_transaction: bool = True  # event and key, erasure and tombstone
    sealed_states: bool = True
    keys_not_in_checkpoints: bool = True
    cache_before_shard: bool = True  # when they are written
    named_keys: bool = True  # an encrypted value names its key
    high_watermark: bool = True
    erased_ends_its_key: bool = True
    personal_fields_left_out: bool = True  # of fingerprints
    owner_wraps: bool = True  # no tool does
    parked_end_with_their_key: bool = True
    projections_hear: bool = True
    ledger: bool = True  # after a restore, the erasures in the file are sent again


@dataclass(frozen=True)
class Scenario:
    """The commands of clients, and the bounds of the model."""

    name: str
    todo: tuple[Command, ...]
    starts: int = 3
    crashes: int = 1
    losses: int = 1
    checkpoints: int = 1
    compactions: int = 2
    restores: int = 0
    rewraps: int = 0
    batch: int = 2
    projects: bool = True

    def first_world(self) -> World:
        return World(
            self.todo,
            RemainingFaults(
                self.starts,
                self.crashes,
                self.losses,
                self.checkpoints,
                self.compactions,
                self.restores,
                self.rewraps,
            ),
        )
