"""Records read as messages that name each other: commands, outcomes, events and dead letters. Pure."""

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec
from msgspec import Raw

from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record

#: A command record: its aggregate's name, partition and offset. What came of it names it.
CommandPlace = tuple[str, int, int]


class LinkedMessage(NamedTuple):
    """A record that was read as a message; `caused_by` is the place of the command record that it came from.

    `id`, `causation` and `correlation` are empty where the message has none.
    """

    kind: str
    aggregate: str
    partition: int
    record: Record
    caused_by: CommandPlace
    id: str = ""
    type: str = ""
    subject: str = ""
    causation: str = ""
    correlation: str = ""
    data: bytes = b"{}"

    @property
    def is_anonymous(self) -> bool:
        """True for what became of a command that was given up: it names the command's place alone."""
        return not (self.causation or self.correlation or self.id)

    def belongs(self, wanted: Collection[str]) -> bool:
        """True if this is about one of these commands or correlations. Ids of outcomes and events are places."""
        ids = [self.causation, self.correlation]
        if self.kind in ("commands", "dead-letters"):
            ids.append(self.id)
        return any(id in wanted for id in ids if id)


def message_reader(wanted: Collection[str]) -> Callable[[str, str, int, Record], LinkedMessage | None]:
    """A function (kind, aggregate, partition, record) that reads a record, None if it cannot belong.

    Most records are told apart by their bytes alone: JSON without a backslash spells a text in one way.
    """
    needles = [msgspec.json.encode(text)[1:-1] for text in wanted]

    def read(kind: str, aggregate: str, partition: int, record: Record) -> LinkedMessage | None:
        value = record.value or b""
        if (
            record.headers == HEADERS
            and b"\\" not in value
            and not any(needle in value for needle in needles)
            and not (kind == "outcomes" and b'"causationid"' not in value and _GIVEN_UP in value)
        ):
            return None
        try:
            return _READERS[kind](aggregate, partition, record)
        except (Refused, ValueError):
            return None

    return read


_GIVEN_UP = b'"%s"' % Reason.TOO_LARGE.name.encode()


def _command(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    envelope = read_command(record)
    return LinkedMessage(
        "commands",
        aggregate,
        partition,
        record,
        (aggregate, partition, record.offset),
        envelope.id,
        envelope.type,
        envelope.subject,
        envelope.causationid or "",
        envelope.correlationid or envelope.id,
        bytes(envelope.data),
    )


def _outcome(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    read = read_outcome(record.value)
    return LinkedMessage(
        "outcomes",
        aggregate,
        partition,
        record,
        (aggregate, read.data.partition, read.data.offset),
        read.id if read.causationid else "",
        read.type,
        read.subject or "",
        read.causationid or "",
        read.correlationid or read.causationid or "",
        msgspec.json.encode(read.data),
    )


def _event(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    read = read_event(record.value)
    _, offset, _ = read.position()
    return LinkedMessage(
        "events",
        aggregate,
        partition,
        record,
        (aggregate, partition, offset),
        read.id,
        read.type,
        read.subject,
        read.causationid,
        read.correlationid or read.causationid,
        bytes(read.data) if read.datasha256 is None else msgspec.json.encode(read.datasha256),
    )


def _dead_letter(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    headers = dict(record.headers or ())
    place = (aggregate, partition, int(headers.get("cqrs.offset") or b""))
    try:
        read = _command(aggregate, partition, record)
    except Refused:
        return LinkedMessage("dead-letters", aggregate, partition, record, place)
    return read._replace(kind="dead-letters", caused_by=place)


_READERS: dict[str, Callable[[str, int, Record], LinkedMessage]] = {
    "commands": _command,
    "outcomes": _outcome,
    "events": _event,
    "dead-letters": _dead_letter,
}


def reason_of(message: LinkedMessage) -> str:
    """The reason of a dead letter."""
    headers = dict(message.record.headers or ())
    texts = [(headers.get(name) or b"").decode(errors="replace") for name in ("cqrs.reason", "cqrs.message")]
    return ": ".join(text for text in texts if text)


def data_of(message: LinkedMessage) -> Raw:
    """The message's data as it is."""
    return Raw(message.data)
