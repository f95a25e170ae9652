"""The whole state of the model: the logs, the owner, copies of its state, a projection, and the possible faults."""

from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.keys.topic import SubjectKeys, WrappedKey
from tests.model.erasing.note import Note, data_of


class Command(NamedTuple):
    """A command. `kind` is write, erase, defer (a write for later) or resubmission (of the deferred write)."""

    kind: str
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


class DeferredWrite(NamedTuple):
    data: bytes  # encrypted
    offset: int  # the offset of the command
    resubmitted_at: int | None = None  # the offset of its resubmission


class Memory(NamedTuple):
    """An owner's memory: the state, the key table and the remembered ids."""

    state: Note = Note()
    subject_keys: SubjectKeys = SubjectKeys()
    ids: tuple[tuple[str, int], ...] = ()  # remembered ids with their fingerprints


class OpenTransaction(NamedTuple):
    """An uncommitted transaction, and the memory after it.

    `tombstone_follows` is true if the tombstone is written after the commit.
    """

    events: tuple[Event, ...]
    outcomes: tuple[Outcome, ...]
    keys: tuple[KeyRecord, ...]
    deferred: DeferredWrite | None
    position: int
    memory: Memory
    tombstone_follows: bool = False


class Owner(NamedTuple):
    position: int
    memory: Memory
    transaction: OpenTransaction | None = None  # not committed yet
    owes_tombstone: bool = False


class Cache(NamedTuple):
    """The keys in an owner's cache on disk. `keys` is the number of records read of the topic."""

    subject_keys: SubjectKeys = SubjectKeys()
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
    subject_keys: SubjectKeys = SubjectKeys()
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
    deferred: DeferredWrite | None


class World(NamedTuple):
    unsent: tuple[Command, ...]
    remaining_faults: RemainingFaults
    commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    visible_ends: tuple[int, int] = (0, 0)  # events and keys that readers see, which appear one by one
    deferred: DeferredWrite | None = None
    owner: Owner | None = None
    shard: Copy | None = None
    cache: Cache = Cache()  # next to the shard
    checkpoint: Copy | None = None
    projection: Projection = Projection()
    key_count: int = 1  # number of keys created so far
    backup: Backup | None = None

    def faults_with(self, **less: int | WrappedKey) -> RemainingFaults:
        """Return the remaining faults with these changed fields."""
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
        return any(command.kind == "erase" for command in self.commands)


@dataclass(frozen=True)
class Rules:
    """The rules of erasing. A test breaks a rule by setting it to False."""

    one_transaction: bool = True  # contains event and key, or erasure and tombstone
    encrypts_states: bool = True  # in shards
    keys_not_in_checkpoints: bool = True
    cache_before_shard: bool = True  # an owner writes the key cache before the shard
    values_name_keys: bool = True  # an encrypted value contains its key id
    high_watermark: bool = True  # readers of keys know the end of the topic, open transactions included
    erased_ends_its_key: bool = True  # a reader of Erased drops the key
    fingerprints_omit_personal: bool = True
    only_owner_rewraps: bool = True  # no tool re-wraps keys
    deferred_writes_end_with_key: bool = True
    projections_subscribe: bool = True  # to Erased
    repeats_erasures: bool = True  # after a restore, the erasures in the file are sent again


@dataclass(frozen=True)
class Scenario:
    """The commands of clients, and the bounds of the model."""

    name: str
    unsent: tuple[Command, ...]
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
            self.unsent,
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
