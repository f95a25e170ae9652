"""Reads and writes outcomes and dead letters, the results of command records."""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from cqrs_cli.core.messages.attributes import PropagatedAttributes
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Headers, Record

#: The maximal length of a message in an outcome, in characters: a handler's error must not make the record too large.
MAX_MESSAGE = 1000


#: The ranges of numbers that a shard can store. Readers check them, because any client with access could write
#: outcomes.
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_SmallCount = Annotated[int, Meta(ge=0, lt=2**32)]


class Original(Struct, frozen=True, gc=False):
    """The first decision on a subject and id, to which a duplicate refers.

    `partition` is set if another partition made the decision.
    """

    offset: _Count
    status: str
    version: _Count
    events: _SmallCount
    partition: _Count | UnsetType = UNSET


class DeferredTarget(Struct, frozen=True, gc=False):
    """The deferred command that a `cqrs.Cancel` or `cqrs.Release` names, with the offset where it was deferred."""

    id: str
    offset: _Count
    partition: _Count | UnsetType = UNSET  # set if another partition deferred it


class VerdictWithoutDeferral(Struct, gc=False, kw_only=True):
    """The data of an outcome, without the fields of deferred commands. Unset fields are omitted. docs/messages.md
    explains the fields.
    """

    status: str
    reason: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    expected: str | UnsetType = UNSET
    version: _Count = 0
    events: _SmallCount = 0
    partition: _Count = 0
    offset: _Count = 0
    fingerprint: _SmallCount | UnsetType = UNSET
    original: Original | UnsetType = UNSET
    decidedat: str | UnsetType = UNSET


class Verdict(VerdictWithoutDeferral, gc=False, kw_only=True):
    """The data of an outcome, with the fields of deferred commands.

    Owners write `VerdictWithoutDeferral` if these fields are unset, because checking them in every outcome would cost
    2 % of the time.
    """

    due: str | UnsetType = UNSET
    attempt: _SmallCount | UnsetType = UNSET
    deferredfrom: str | UnsetType = UNSET
    movedto: _Count | UnsetType = UNSET
    target: DeferredTarget | UnsetType = UNSET


class OutcomeEnvelope(PropagatedAttributes, frozen=True, kw_only=True, gc=False):
    """An outcome that was read."""

    id: str
    type: str
    data: Verdict
    time: str = ""
    subject: str | None = None
    causationid: str | None = None
    correlationid: str | None = None
    source: str = ""
    specversion: str = ""


_decode = msgspec.json.Decoder(OutcomeEnvelope).decode


def read_outcome(value: bytes | None) -> OutcomeEnvelope:
    """Return the envelope of an outcome record; raises `ValueError`, or msgspec's subclass, for any other record."""
    if value is None:
        raise ValueError("a null value is not an outcome")
    try:
        return _decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class DeadLetter(NamedTuple):
    """A dead letter: the original bytes of a command record, with the reason of its failure in the headers."""

    value: bytes | None
    key: bytes | None
    timestamp: int  # ms
    headers: Headers


#: The header of a dead letter: the offset of its command.
DEAD_LETTER_OFFSET = "cqrs.offset"


def dead_letter(record: Record, topic: str, partition: int, reason: str, message: str) -> DeadLetter:
    """Return the dead letter of a command record from `topic`."""
    reason_headers: Headers = [
        ("cqrs.reason", reason.encode()),
        ("cqrs.message", truncate(message).encode()),
        ("cqrs.topic", topic.encode()),
        ("cqrs.partition", b"%d" % partition),
        (DEAD_LETTER_OFFSET, b"%d" % record.offset),
    ]
    return DeadLetter(record.value, record.key, record.timestamp, [*(record.headers or []), *reason_headers])


def truncate(message: str, limit: int = MAX_MESSAGE) -> str:
    """Return a message cut to `limit` characters, in valid Unicode: lone surrogates become question marks."""
    truncated = message if len(message) <= limit else message[: limit - 1] + "…"
    return truncated.encode(errors="replace").decode()


#: Returns an outcome as JSON, from a tuple: the command's offset, the type as JSON, the members of
#: `CommandEnvelope.shared_members` as JSON, and the data as JSON.
OutcomeWriter = Callable[[tuple[int, bytes, bytes, bytes]], bytes]

#: Writes the outcome of an accepted command without expected version. The argument is a tuple: the command's offset,
#: the members of `CommandEnvelope.shared_members`, the version, the number of events, the offset again, and the
#: fingerprint.
AcceptedWriter = Callable[[tuple[int, bytes, int, int, int, int]], bytes]


def outcome_writer(source: str, partition: int) -> OutcomeWriter:
    """Return the writer of outcomes."""
    return _outcome_template(source, partition, b"%b", b"%b").__mod__


def accepted_writer(source: str, partition: int, command_type: str) -> AcceptedWriter:
    """Return the writer of the outcomes of accepted commands of a type. Its template contains an encoded verdict, with
    `%d` in place of each number that differs from outcome to outcome.
    """
    wire_type = encode_json(f"{command_type}.accepted").replace(b"%", b"%%")
    verdict = VerdictWithoutDeferral(
        status="accepted", version=-1, events=-1, partition=partition, offset=-1, fingerprint=-1
    )
    data = encode_json(verdict).replace(b"-1", b"%d")
    return _outcome_template(source, partition, wire_type, data).__mod__


def _outcome_template(source: str, partition: int, wire_type: bytes, data: bytes) -> bytes:
    """Return the template of outcomes, with the members in the order of docs/messages.md."""
    begin = b'{"specversion":"1.0","id":"%d/' % partition
    source_and_type = b'","source":%b,"type":' % encode_json(source).replace(b"%", b"%%")
    return begin + b"%d" + source_and_type + wire_type + b',%b,"data":' + data + b"}"
