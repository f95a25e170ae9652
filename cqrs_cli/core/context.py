"""The two sides of deciding: `BatchContext` is what it may ask, `Decisions` is what it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.outcome import DeadLetter
from cqrs_cli.core.messages.payload_reference import MAX_PAYLOAD, PayloadReference
from cqrs_cli.core.personal.data_keys import KeyOf, no_key, random_key
from cqrs_cli.core.personal.sealing import DataKey
from cqrs_cli.core.stored import DedupEntry

#: The most events of one command, and the most bytes of all of them.
MAX_EVENTS = 10_000
MAX_BYTES = 8 * 1024 * 1024

#: Payloads by their references, or why one cannot be had.
Payloads = Mapping[PayloadReference, bytes | str]

#: (value, key, timestamp in ms): a record to produce, to the partition of the input.
OutputRecord = tuple[bytes, bytes | None, int]


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The partition as it stands before the batch, and the limits. All functions answer for this partition."""

    partition: int
    state: Callable[[str], Folded | None]  # aggregate id → its state, None if it does not exist
    remembered: Callable[[str, str], DedupEntry | None]  # (subject, command id) → the first decision on it
    now: Callable[[], int]  # the owner's clock, ms: asked for expiry only
    partition_of: Callable[[bytes], int] | None = None  # where a key hashes to; None: not checked
    topic: str = ""  # the commands topic, named in dead letters
    window: int = 24 * 3600 * 1000  # how long an id is remembered, ms
    clock: int = 0  # the greatest timestamp of the records before the batch, ms
    max_event_bytes: int = MAX_BYTES  # of one event record: value, key and headers
    refused: frozenset[int] = frozenset()  # offsets whose bytes are not looked at (`run --fail`)
    blamed: Mapping[int, str] = field(
        default_factory=dict
    )  # offset → why the aggregate's code is not asked again
    deferrals: Deferrals = field(default_factory=Deferrals)
    payloads: Payloads = field(default_factory=dict)  # those that the batch's commands refer to
    payload_threshold: float = inf  # the data of an event with more bytes become a payload
    max_bytes: int = MAX_BYTES  # of all events of one command
    max_payload: int = MAX_PAYLOAD  # of the payloads of all events of one command
    heir_of: Callable[[bytes], int | None] | None = None  # where a key that was ours has moved to
    key_of: KeyOf = no_key  # aggregate id → the key to its personal fields, None if nothing is sealed
    new_key: Callable[[], DataKey] = random_key


class Undecided(Exception):
    """A command met an error of the process (`PROCESS_ERRORS`), which says nothing about the command.

    `before`: how many commands of the batch were decided before it.
    """

    def __init__(self, offset: int, before: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.before = before


class Forward(NamedTuple):
    """A command of a key that has moved: the record for the partition that has the key now."""

    partition: int
    key: bytes
    value: bytes


@dataclass(slots=True)
class Decisions:
    """The results of a batch. `states` and `remembered` hold what changed; `clock` is the new running maximum."""

    clock: int
    events: list[OutputRecord] = field(default_factory=list)
    outcomes: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    payloads: dict[PayloadReference, bytes] = field(default_factory=dict)  # to be stored before the events
    forwards: list[Forward] = field(default_factory=list)
    states: dict[str, Folded] = field(default_factory=dict)
    remembered: dict[tuple[str, str], DedupEntry] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    keys: dict[str, DataKey | None] = field(default_factory=dict)  # those that changed; None: it has ended
    reasons: dict[str, int] = field(default_factory=dict)  # of the deferred, rejected and failed ones
    raised: dict[str, str] = field(default_factory=dict)  # place and kind of a handler's error → a traceback
    deferred: dict[str, Deferral | None] = field(
        default_factory=dict
    )  # entries as they are from now on, by key
