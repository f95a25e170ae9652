"""Everything at one moment: the logs, the owner, copies of its state, a projection, and what may still go wrong."""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.keys.topic import KnownKeys, WrappedKey
from tests.model.erasing.note import Note, data_of


class Command(NamedTuple):
    """`what`: write, erase, park (a write before its time), again (an owner's, of the parked one)."""

    what: str
    id: str
    text: str = ""


class Event(NamedTuple):
    type: str
    data: bytes  # as in the log: sealed


class Outcome(NamedTuple):
    offset: int
    status: str
    id: str
    mark: int


class Gone(NamedTuple):
    """A record of the keys that compaction has removed; its offset stays."""


KeyRecord = WrappedKey | Gone | None


class Parked(NamedTuple):
    data: bytes  # sealed
    at: int  # the offset of the command
    said: int | None = None  # where it stands again


class Memory(NamedTuple):
    state: Note = Note()
    known: KnownKeys = KnownKeys()
    ids: tuple[tuple[str, int], ...] = ()  # what is remembered: id and fingerprint


class Open(NamedTuple):
    """A transaction that is not committed, and what is known behind it. `later`: a tombstone that comes after it."""

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
    open: Open | None = None
    owes: bool = False  # a tombstone


class Cache(NamedTuple):
    """The keys that an owner keeps on its disk; how many records of the topic it has seen."""

    known: KnownKeys = KnownKeys()
    keys: int = 0


class Copy(NamedTuple):
    """A shard or a checkpoint; how many events it has seen. `cache`: of the machine that opens it."""

    events: int
    state: bytes
    cache: Cache = Cache()


NOTHING = Copy(0, data_of(""))


class Projection(NamedTuple):
    events: int = 0
    known: KnownKeys = KnownKeys()
    keys: int = 0
    rows: frozenset[str] = frozenset()


class Left(NamedTuple):
    """How often it may still happen. `rewraps` by the owner, or a tool: the key that it has read."""

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
    left: Left
    commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    shown: tuple[int, int] = (0, 0)  # events and keys that readers see: a transaction shows piece by piece
    parked: Parked | None = None
    owner: Owner | None = None
    shard: Copy | None = None
    cache: Cache = Cache()  # beside the shard
    checkpoint: Copy | None = None
    projection: Projection = Projection()
    drawn: int = 1  # keys so far
    backup: Backup | None = None

    def spend(self, **less: int | WrappedKey) -> Left:
        """The faults that are left once these have happened."""
        return self.left._replace(**less)  # type: ignore[arg-type]

    @property
    def copies(self) -> dict[str, Copy]:
        """The copies that an owner may start from, by name."""
        there = {"nothing": NOTHING}
        if self.checkpoint is not None:
            there["a checkpoint"] = self.checkpoint
        if self.shard is not None:
            there["its shard"] = self.shard._replace(cache=self.cache)
        return there

    @property
    def is_erased(self) -> bool:
        """True if an erasure was asked for."""
        return any(one.what == "erase" for one in self.commands)


@dataclass(frozen=True)
class Rules:
    """Every rule of erasing that the model knows; a test breaks one."""

    one_transaction: bool = True  # event and key, erasure and tombstone
    sealed_states: bool = True
    keys_not_in_checkpoints: bool = True
    cache_before_shard: bool = True  # is written
    named_keys: bool = True  # a sealed value names its key
    high_watermark: bool = True
    erased_ends_its_key: bool = True
    personal_fields_left_out: bool = True  # of fingerprints
    owner_wraps: bool = True  # and no tool
    parked_end_with_their_key: bool = True
    projections_hear: bool = True
    ledger: bool = True  # after a restore erasures are sent again


@dataclass(frozen=True)
class Scenario:
    """The commands of clients, and the bounds."""

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

    def beginning(self) -> World:
        return World(
            self.todo,
            Left(
                self.starts,
                self.crashes,
                self.losses,
                self.checkpoints,
                self.compactions,
                self.restores,
                self.rewraps,
            ),
        )
