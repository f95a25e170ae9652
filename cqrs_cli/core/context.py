"""The input and the result of deciding a batch: `BatchContext` and `Decisions`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.outcome import DeadLetter
from cqrs_cli.core.messages.payload_reference import MAX_PAYLOAD, PayloadReference
from cqrs_cli.core.personal.data_keys import random_key
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.core.stored import NO_BOUND, DedupEntry

#: The limits of one command: the number of its events, and the sum of their bytes.
MAX_EVENTS = 10_000
MAX_BYTES = 8 * 1024 * 1024

#: Downloaded payloads by reference. A text is the reason why a payload could not be downloaded.
Payloads = Mapping[PayloadReference, bytes | str]

#: Returns the present data key of an aggregate by its id; None if it has no key.
DataKeyOf: TypeAlias = Callable[[str], DataKey | None]

#: The data keys that a batch has changed, by aggregate id. None: the key is erased.
ChangedKeys: TypeAlias = dict[str, DataKey | None]

#: (value, key, timestamp in ms): a record to produce to the partition of the command.
OutputRecord = tuple[bytes, bytes | None, int]


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The input of deciding a batch: the state of the partition before the batch, and the limits."""

    partition: int
    state_of: Callable[[str], VersionedState | None]  # aggregate id → its state, None if it does not exist
    #: (subject, command id) → the first decision about this id.
    dedup_entry_of: Callable[[str, str], DedupEntry | None]
    now: Callable[[], int]  # the owner's clock, ms; only used for `expirytime`
    #: Key → its partition. None in place of the function: partitions are not checked.
    partition_of: Callable[[bytes], int] | None = None
    topic: str = ""  # the commands topic, for dead letters
    dedup_window: int = 24 * 3600 * 1000  # the dedup window, ms
    clock: int = 0  # the greatest timestamp of the records before the batch, ms
    max_event_bytes: int = MAX_BYTES  # limit of one event record: value, key and headers
    #: Offsets of commands that fail without being read: an operator gave them up (`run --fail`).
    force_failed: frozenset[int] = frozenset()
    #: Offset → the reason why the aggregate's code is not called again for this command.
    poison_reasons: Mapping[int, str] = field(default_factory=dict)
    deferrals: Deferrals = field(default_factory=Deferrals)
    payloads: Payloads = field(default_factory=dict)  # the payloads of the batch's commands
    payload_threshold: float = inf  # event data with more bytes become a payload
    max_bytes: int = MAX_BYTES  # limit of all events of one command together
    max_payload: int = MAX_PAYLOAD  # limit of the payloads of all events of one command together
    #: Key → the child partition to which the key has moved, or None. None in place of the function: no key has moved.
    forward_target_of: Callable[[bytes], int | None] | None = None
    data_key_of: DataKeyOf | None = None  # None: no aggregate has a key yet
    #: Returns an upper bound of the ids in the dedup entries: a greater id needs no lookup. It is called once for each
    #: piece of the batch (`Batch.decide_piece`).
    greatest_id: Callable[[], str] = lambda: NO_BOUND
    new_data_key: Callable[[], DataKey] = random_key


class DecisionInterrupted(Exception):
    """The process failed (`PROCESS_ERRORS`) while the command at `offset` was decided. The command may be valid.

    `decided_count` is the number of commands of the batch that were decided before this command.
    """

    def __init__(self, offset: int, decided_count: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.decided_count = decided_count


class Forward(NamedTuple):
    """A forwarded command whose key has moved: the record for the child partition."""

    partition: int
    key: bytes
    value: bytes


@dataclass(slots=True)
class Decisions:
    """The results of a batch. `states` and `dedup_entries` contain only changes."""

    clock: int  # the greatest timestamp of the records so far, ms
    events: list[OutputRecord] = field(default_factory=list)
    outcomes: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    payloads: dict[PayloadReference, bytes] = field(default_factory=dict)  # to upload before the events
    forwards: list[Forward] = field(default_factory=list)
    states: dict[str, VersionedState] = field(default_factory=dict)
    dedup_entries: dict[tuple[str, str], DedupEntry] = field(default_factory=dict)
    #: Status → number of commands; `events` → number of events.
    counts: dict[str, int] = field(default_factory=dict)
    data_keys: ChangedKeys = field(default_factory=dict)
    #: Reason → the number of commands that were deferred, rejected or failed for it.
    reason_counts: dict[str, int] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)  # `wallet.py:12: KeyError` → a sample traceback
    #: Changed deferral entries by key; None: removed.
    deferral_changes: dict[str, Deferral | None] = field(default_factory=dict)
    greatest_id: str = ""  # an upper bound of all remembered command ids, also from before the batch
