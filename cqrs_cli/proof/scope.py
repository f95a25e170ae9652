"""The partition that is proved, and what is known of it before its records are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.core.deferral.deferrals import EARLY
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.documents import MaskDocument
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.fingerprints import FitsCommand, fits_whole
from cqrs_cli.proof.homes import Homes
from cqrs_cli.proof.keys import KeyRing


class Loss(NamedTuple):
    """A loss accepted by an operator (`run --accept-loss`): where the commands went on, and where the logs ended."""

    at: int
    events: int
    outcomes: int


def check_shape(event: EventEnvelope) -> None:
    """Check an event without the aggregate's code; raises `ValueError` if its type or data could be no event's."""
    if not event.type.rpartition(".")[2].isidentifier():
        raise ValueError(f"its type {event.type!r} names no event")
    try:
        read_members(event.data)
        bytes(event.data).decode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its data is not a JSON object: {error}") from None


class PersonalScope(NamedTuple):
    """A proof's knowledge of an aggregate with personal fields. `ring` opens what keys in force seal."""

    ring: KeyRing | None = None
    masked: MaskDocument = (
        bytes  # of deferred commands, which are sealed, and of those that their senders sent
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """One partition, and what its records must fit."""

    aggregate: str
    commands: str  # the commands topic, as dead letters name it
    partition: int
    starts: Mapping[LogName, int]  # where each log starts: what lay before was deleted
    window: int  # how long an id is remembered, ms: the shortest window there ever was
    home: Callable[[bytes], int | None] = lambda key: None  # the partition of a key, None: anywhere
    loss: Loss | None = None
    command_at: Callable[[int], Record | None] = lambda offset: None  # what the commands topic has there now
    topic_id: str = ""  # of the commands topic
    longest_window: int | None = None  # the longest, ms; None: there was one only
    #: Raises what says why an event cannot be read.
    decode_event: Callable[[EventEnvelope], object] = check_shape
    early: int = EARLY  # how long before it is due a deferred command may be decided, ms
    homes: Homes | None = None  # of an aggregate that has grown
    for_child: bool = False  # the proof is for a child, which has its keys from this partition
    fits: FitsCommand = fits_whole  # tells whether an outcome's fingerprint may be of a command
    personal: PersonalScope | None = None  # of an aggregate with personal fields

    def home_at(self, key: bytes, command: int) -> int | None:
        """The partition of a key when a command was decided, None: anywhere."""
        return self.home(key) if self.homes is None else self.homes.home(key, command)

    @property
    def masked(self) -> MaskDocument:
        """Makes of the document of a command the part that is compared."""
        return bytes if self.personal is None else self.personal.masked


class Clock:
    """The text of a record's timestamp; records of one millisecond come together."""

    def __init__(self) -> None:
        self._timestamp: int | None = None
        self._text = ""

    def __call__(self, timestamp: int) -> str:
        if timestamp != self._timestamp:
            self._timestamp, self._text = timestamp, rfc3339(timestamp)
        return self._text
