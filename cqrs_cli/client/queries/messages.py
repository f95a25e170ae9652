"""Reads records as messages that refer to each other: commands, outcomes, events and dead letters."""

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec
from msgspec import Raw

from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.drop_record import DropRecord, is_drop_record, read_drop_record
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record

#: The position of a command record: aggregate name, partition and offset, e.g. `("bank_account", 3, 17)`. Outcomes,
#: events and dead letters refer to their command by its position.
CommandPosition = tuple[str, int, int]


class LinkedMessage(NamedTuple):
    """A record that was read as a message.

    `kind`: `commands`, `outcomes`, `events`, `dead-letters` or `drops`. `command_position`: the position of the command
    from which the message follows; for a command, its own position. For the record of a drop (`drops`), it is the
    position of the last command whose dead letter was deleted. `id`, `causation` and `correlation` are empty if the
    message lacks them.
    """

    kind: str
    aggregate: str
    partition: int
    record: Record
    command_position: CommandPosition
    id: str = ""
    type: str = ""
    subject: str = ""
    causation: str = ""
    correlation: str = ""
    data: bytes = b"{}"

    @property
    def is_anonymous(self) -> bool:
        """True for a message without ids, e.g. the outcome of a command that an operator gave up. It refers to its
        command only by the position.
        """
        return not (self.causation or self.correlation or self.id)

    def concerns(self, ids: Collection[str]) -> bool:
        """True if the message belongs to a command or correlation in `ids`.

        The message's own id is compared only for commands and dead letters: the id of an outcome or event is a
        position, not a command id.
        """
        own_ids = [self.causation, self.correlation]
        if self.kind in ("commands", "dead-letters"):
            own_ids.append(self.id)
        return any(id in ids for id in own_ids if id)


def message_reader(ids: Collection[str]) -> Callable[[str, str, int, Record], LinkedMessage | None]:
    """Return a function (kind, aggregate, partition, record) that reads a record as a message. It returns None for a
    record that contains none of the ids, or that is not readable.

    Most records are excluded by a search in their bytes, without parsing: in JSON without a backslash, an id has only
    one spelling.
    """
    patterns = [msgspec.json.encode(text)[1:-1] for text in ids]

    def read(kind: str, aggregate: str, partition: int, record: Record) -> LinkedMessage | None:
        value = record.value or b""
        if (
            record.headers == HEADERS
            and b"\\" not in value
            and not any(pattern in value for pattern in patterns)
            and not (kind == "outcomes" and b'"causationid"' not in value and _GIVEN_UP_REASON in value)
        ):
            return None
        try:
            return _READERS[kind](aggregate, partition, record)
        except (CheckFailed, ValueError):
            return None

    return read


#: The reason, as JSON, in the outcome of a command that an operator gave up. Such an outcome has no command id.
_GIVEN_UP_REASON = b'"%s"' % Reason.TOO_LARGE.name.encode()


def _command_message(aggregate: str, partition: int, record: Record) -> LinkedMessage:
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


def _outcome_message(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    outcome = read_outcome(record.value)
    return LinkedMessage(
        "outcomes",
        aggregate,
        partition,
        record,
        (aggregate, outcome.data.partition, outcome.data.offset),
        outcome.id if outcome.causationid else "",
        outcome.type,
        outcome.subject or "",
        outcome.causationid or "",
        outcome.correlationid or outcome.causationid or "",
        msgspec.json.encode(outcome.data),
    )


def _event_message(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    event = read_event(record.value)
    _, offset, _ = event.position()
    return LinkedMessage(
        "events",
        aggregate,
        partition,
        record,
        (aggregate, partition, offset),
        event.id,
        event.type,
        event.subject,
        event.causationid,
        event.correlationid or event.causationid,
        bytes(event.data) if event.datasha256 is None else msgspec.json.encode(event.datasha256),
    )


def _dead_letter_message(aggregate: str, partition: int, record: Record) -> LinkedMessage:
    if is_drop_record(record):
        last_position = (aggregate, partition, read_drop_record(record.value).last_command)
        return LinkedMessage("drops", aggregate, partition, record, last_position, data=record.value or b"")
    headers = dict(record.headers or ())
    position = (aggregate, partition, int(headers.get("cqrs.offset") or b""))
    try:
        message = _command_message(aggregate, partition, record)
    except CheckFailed:
        return LinkedMessage("dead-letters", aggregate, partition, record, position)
    return message._replace(kind="dead-letters", command_position=position)


#: Kind of topic → the function that reads its records.
_READERS: dict[str, Callable[[str, int, Record], LinkedMessage]] = {
    "commands": _command_message,
    "outcomes": _outcome_message,
    "events": _event_message,
    "dead-letters": _dead_letter_message,
}


def reason_of(message: LinkedMessage) -> str:
    """Return the reason and message of a dead letter as one text."""
    headers = dict(message.record.headers or ())
    texts = [(headers.get(name) or b"").decode(errors="replace") for name in ("cqrs.reason", "cqrs.message")]
    return ": ".join(text for text in texts if text)


def drop_of(message: LinkedMessage, position: CommandPosition) -> DropRecord | None:
    """Return the drop that a message records; None if the drop cannot have deleted the dead letter of the command at
    `position`, and for other messages.
    """
    aggregate, partition, offset = position
    if (message.kind, message.aggregate, message.partition) != ("drops", aggregate, partition):
        return None
    drop = read_drop_record(message.record.value)
    return drop if drop.first_command <= offset <= drop.last_command else None


def data_of(message: LinkedMessage) -> Raw:
    """Return the message's data as raw JSON."""
    return Raw(message.data)
