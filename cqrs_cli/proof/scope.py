"""The verified partition, and the facts about it that are known before its records are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cqrs_cli.codec.damage_finder import DamageFinder
from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.keyspace.key_history import KeyHistory
from cqrs_cli.proof.documents import DocumentRedactor
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.fingerprints import FingerprintCheck, fits_whole


class Loss(NamedTuple):
    """A loss of records that an operator accepted (`run --accept-loss`)."""

    restart_command: int  # offset of the command at which the owner continued
    events_end: int  # end offset of the events at the time of the acceptance
    outcomes_end: int  # end offset of the outcomes at the time of the acceptance


def check_shape(event: EventEnvelope) -> None:
    """Check an event without the aggregate's code; raise `ValueError` if no event can have its type or data."""
    if not event.type.rpartition(".")[2].isidentifier():
        raise ValueError(f"its type {event.type!r} names no event")
    try:
        read_members(event.data)
        bytes(event.data).decode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its data is not a JSON object: {error}") from None


class PersonalScope(NamedTuple):
    """Functions for the verification of personal fields."""

    damage_finder: DamageFinder | None = None  # finds values that cannot be decrypted; None without a keyring
    redact_document: DocumentRedactor = bytes  # returns equal bytes for the encrypted and the plain document


@dataclass(frozen=True, slots=True)
class Scope:
    """The verified partition, and the facts with which its records must agree."""

    aggregate: str
    commands_topic: str  # name of the topic, which dead letters contain
    partition: int
    starts: Mapping[LogName, int]  # start offset of each log; retention has deleted earlier records
    shortest_window: int  # ms, the shortest dedup window that any run has used
    #: Returns the partition of a key; None if any partition is allowed.
    partition_of: Callable[[bytes], int | None] = lambda key: None
    loss: Loss | None = None
    #: Returns the command at an offset, or None.
    command_at: Callable[[int], Record | None] = lambda offset: None
    topic_id: str = ""  # id of the commands topic
    longest_window: int | None = None  # ms, the longest dedup window of any run; None: the shortest window
    #: Raises an error with the reason if an event cannot be read.
    decode_event: Callable[[EventEnvelope], object] = check_shape
    #: Milliseconds by which a deferred command may be resubmitted before it is due.
    clock_tolerance: int = CLOCK_TOLERANCE
    key_history: KeyHistory | None = None  # None if the aggregate was never repartitioned
    ends: Mapping[LogName, int] = field(default_factory=dict)  # end offset of each log, if known
    for_child: bool = False  # True: the partition is verified as the parent of a child partition
    fits_command: FingerprintCheck = fits_whole
    personal: PersonalScope | None = None  # None without personal fields

    def partition_at_command(self, key: bytes, command_offset: int) -> int | None:
        """Return the partition to which a key belonged when the command was decided; None if any is allowed."""
        return (
            self.partition_of(key)
            if self.key_history is None
            else self.key_history.partition_at_command(key, command_offset)
        )

    @property
    def redact_document(self) -> DocumentRedactor:
        """The function that reduces a command's document to the part that is compared."""
        return bytes if self.personal is None else self.personal.redact_document


class TimestampText:
    """Formats timestamps (ms) as RFC 3339. Caches the last text: adjacent records often have equal timestamps."""

    def __init__(self) -> None:
        self._timestamp: int | None = None
        self._text = ""

    def __call__(self, timestamp: int) -> str:
        if timestamp != self._timestamp:
            self._timestamp, self._text = timestamp, rfc3339(timestamp)
        return self._text
