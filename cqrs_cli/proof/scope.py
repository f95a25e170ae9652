"""The verified partition, and the facts about it that are known before its records are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cqrs_cli.codec.active_keys import ActiveKeys
from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.keyspace.key_history import KeyHistory
from cqrs_cli.proof.documents import MaskDocument
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.fingerprints import FitsCommand, fits_whole


class Loss(NamedTuple):
    """A loss that an operator accepted (`run --accept-loss`).

    `restart_command`: the offset of the command at which the owner continued. `events`, `outcomes`: the end offsets of
    these logs at that time.
    """

    restart_command: int
    events: int
    outcomes: int


def check_shape(event: EventEnvelope) -> None:
    """Check an event without the aggregate's code; raise `ValueError` if its type or data cannot be of an event."""
    if not event.type.rpartition(".")[2].isidentifier():
        raise ValueError(f"its type {event.type!r} names no event")
    try:
        read_members(event.data)
        bytes(event.data).decode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its data is not a JSON object: {error}") from None


class PersonalScope(NamedTuple):
    """The facts about an aggregate with personal fields. `active_keys` decrypts the values whose keys are not erased;
    None without a keyring.
    """

    active_keys: ActiveKeys | None = None
    mask_document: MaskDocument = bytes  # makes encrypted and plain documents comparable


@dataclass(frozen=True, slots=True)
class Scope:
    """The verified partition, and the facts that its records must match."""

    aggregate: str
    commands: str  # name of the commands topic; dead letters contain it, too
    partition: int
    starts: Mapping[LogName, int]  # start offset of each log; earlier records are deleted
    shortest_window: int  # the shortest dedup window so far, ms
    partition_of: Callable[[bytes], int | None] = lambda key: (
        None
    )  # the partition of a key; None: any partition
    loss: Loss | None = None
    #: Returns the command at an offset, if it exists.
    command_at: Callable[[int], Record | None] = lambda offset: None
    topic_id: str = ""  # id of the commands topic
    longest_window: int | None = None  # the longest window so far, ms; None: it never changed
    #: Raises an error with the reason if an event cannot be read.
    decode_event: Callable[[EventEnvelope], object] = check_shape
    max_earliness: int = CLOCK_TOLERANCE  # by how much a deferred command may be early, ms
    key_history: KeyHistory | None = None  # after a repartitioning
    ends: Mapping[LogName, int] = field(default_factory=dict)  # end offset of each log, if known
    for_child: bool = False  # verifies a parent for its child partition
    has_fingerprint: FitsCommand = fits_whole  # function: may this command have this fingerprint?
    personal: PersonalScope | None = None  # None without personal fields

    def partition_at_command(self, key: bytes, command_offset: int) -> int | None:
        """Return the partition of a key when a command was decided; None: any partition."""
        return (
            self.partition_of(key)
            if self.key_history is None
            else self.key_history.partition_at_command(key, command_offset)
        )

    @property
    def mask_document(self) -> MaskDocument:
        """Reduces a command's document to the part that is compared."""
        return bytes if self.personal is None else self.personal.mask_document


class TimestampText:
    """Formats timestamps, and caches the last text, because adjacent records often have the same timestamp."""

    def __init__(self) -> None:
        self._timestamp: int | None = None
        self._text = ""

    def __call__(self, timestamp: int) -> str:
        if timestamp != self._timestamp:
            self._timestamp, self._text = timestamp, rfc3339(timestamp)
        return self._text
