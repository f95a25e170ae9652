"""Reads command records: CloudEvents 1.0 over Kafka, in structured and binary mode.

Source: CloudEvents 1.0.2 core, JSON format and Kafka protocol binding. Structured mode takes precedence over binary
mode, the last of repeated headers counts, and a null attribute is equal to a missing attribute.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Literal, NoReturn

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from cqrs_cli.core.messages.attributes import PropagatedAttributes, Shared
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.nesting import MAX_ENVELOPE_NESTING, check_nesting
from cqrs_cli.core.messages.payload_reference import PayloadReference, parse_reference
from cqrs_cli.core.messages.reaction_id import reserved_id_error
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Headers, Record

#: The maximal length of an attribute, in bytes of UTF-8.
MAX_ATTRIBUTE = 1024

STRUCTURED = "application/cloudevents+json"

_Moment = Annotated[datetime, Meta(tz=True)]


class CommandEnvelope(PropagatedAttributes, frozen=True, kw_only=True, gc=False):
    """A received command. `data` and `expectedversion` are raw: checks 7 and 8 decode them.

    If the record refers to a payload, `data` is the payload's SHA-256 as a JSON string; other valid data are objects.
    """

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str
    data: Raw = Raw(b"{}")
    expectedversion: Raw | UnsetType = UNSET
    expirytime: _Moment | None = None
    notbefore: _Moment | None = None
    deferredfrom: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    data_base64: Raw | UnsetType = UNSET
    dataref: str | None = None
    datasha256: str | None = None
    datasize: int | str | None = None

    def expected_text(self) -> str | None:
        """Return the expected version as text, None if it is missing: the content of a JSON string, else raw JSON."""
        if self.expectedversion is UNSET:
            return None
        raw = bytes(self.expectedversion)
        if raw == b"null":
            return None
        return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()

    def reference(self) -> PayloadReference | None:
        """Return the reference to the payload that holds the data; None if the record contains the data."""
        return None if self.datasha256 is None else parse_reference(self.datasha256, self.datasize)

    def shared_members(self, time: str) -> bytes:
        """Return the members that events and outcome of the command have in common, as JSON without the braces."""
        correlation = self.correlationid or self.id
        members = Shared(self.subject, time, self.id, correlation, *self.propagated_texts())
        return encode_json(members)[1:-1]


def shared_members_of_unreadable(time: str) -> bytes:
    """Return the replacement for `CommandEnvelope.shared_members` in the outcome of an unreadable command."""
    return b'"time":%b' % encode_json(time)


class OrdinaryCommand(CommandEnvelope, frozen=True, kw_only=True, gc=False):
    """A short command in structured mode without rare attributes: no expiry, no deferral, and no payload reference.

    Only its key, id, type, `data` and `expectedversion` remain to be checked.
    """

    id: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]
    type: Annotated[str, Meta(min_length=1)]
    subject: Annotated[str, Meta(min_length=1)]
    expirytime: None = None
    notbefore: None = None
    deferredfrom: None = None
    datacontenttype: Literal["application/json"] | None = None
    data_base64: UnsetType = UNSET
    dataref: None = None
    datasha256: None = None


_decode = msgspec.json.Decoder(CommandEnvelope).decode
_decode_ordinary = msgspec.json.Decoder(OrdinaryCommand).decode


def read_ordinary(record: Record) -> OrdinaryCommand | None:
    """Return the envelope of an ordinary command; None for any other record, which `read_command` reads."""
    value = record.value
    if value is None or len(value) > MAX_ATTRIBUTE or record.headers != HEADERS:
        return None
    try:
        if not value.isascii():
            value.decode()  # msgspec does not check the UTF-8 of members that it skips
        envelope = _decode_ordinary(value)
    except (ValueError, RecursionError):  # not ordinary, or invalid
        return None
    if "@" in envelope.id and reserved_id_error(envelope.id, envelope.source) is not None:
        return None
    return envelope


def read_command(record: Record) -> CommandEnvelope:
    """Return the envelope of a command record; raises `CheckFailed` (INVALID_ENVELOPE) for any other record."""
    value = record.value
    if value is None:
        _invalid("the value is null")
    if (ordinary := read_ordinary(record)) is not None:
        return ordinary
    if record.headers is UNREADABLE_HEADERS:
        _invalid("a header has a name that is not UTF-8")
    if record.headers != HEADERS and _is_binary(record.headers or []):
        return _read_binary(record.headers or [], value)
    return _read_structured(value)


def command_or_none(record: Record | None) -> CommandEnvelope | None:
    """Return the envelope of a command record; None for any other record."""
    try:
        return None if record is None else read_command(record)
    except CheckFailed:
        return None


def _is_binary(headers: Headers) -> bool:
    """True if the attributes are in the headers; raises `CheckFailed` unless the record is one CloudEvent in JSON."""
    last_headers = dict(headers)
    media_type = _media_type(last_headers.get("content-type"))
    if media_type == STRUCTURED:
        return False
    if media_type.startswith("application/cloudevents"):
        _invalid(f"content type {media_type} is not {STRUCTURED}")
    if last_headers.get("ce_specversion") is None:
        _invalid("neither a CloudEvents content type nor a ce_specversion header: send a CloudEvent")
    if media_type and not _is_json(media_type):
        _invalid(f"the data must be JSON, not {media_type}")
    return True


def _read_structured(value: bytes) -> CommandEnvelope:
    # In a document of at most `MAX_ATTRIBUTE` bytes, no attribute can be too long, and nothing can nest too deeply.
    is_long = len(value) > MAX_ATTRIBUTE
    try:
        if not value.isascii():
            value.decode()  # msgspec does not check the UTF-8 of members that it skips
        if is_long:
            check_nesting(value, MAX_ENVELOPE_NESTING)
        envelope = _decode(value)
        if is_long:
            _check_lengths(_long_attributes(value))
    except ValueError as error:  # msgspec raises subclasses of `ValueError`
        _invalid(str(error))
    except RecursionError:
        _invalid("nested too deeply")
    _check_required_attributes(envelope)
    if envelope.data_base64 is not UNSET and bytes(envelope.data_base64) != b"null":
        _invalid("data_base64 is not JSON: send the data in `data`")
    if envelope.datacontenttype is not None and not _is_json(_media_type(envelope.datacontenttype.encode())):
        _invalid(f"the data must be JSON, not {envelope.datacontenttype}")
    return _with_digest_as_data(envelope)


def _read_binary(headers: Headers, value: bytes) -> CommandEnvelope:
    try:
        texts = _header_attributes(headers)
        _check_lengths(texts.items())
        expected = texts.pop("expectedversion", None)
        envelope = msgspec.convert(texts, CommandEnvelope)
    except ValueError as error:
        _invalid(str(error))
    _check_required_attributes(envelope)
    expected_raw = UNSET if expected is None else Raw(msgspec.json.encode(expected))
    return _with_digest_as_data(replace(envelope, expectedversion=expected_raw, data=Raw(value or b"{}")))


def _check_required_attributes(envelope: CommandEnvelope) -> None:
    if not (envelope.id and envelope.source and envelope.type and envelope.subject):
        _invalid("id, source, type and subject must not be empty")
    if (problem := reserved_id_error(envelope.id, envelope.source)) is not None:
        _invalid(problem)


def _with_digest_as_data(envelope: CommandEnvelope) -> CommandEnvelope:
    """Return the envelope. If it refers to a payload, its data become the payload's SHA-256 as JSON.

    Raises `CheckFailed` for data together with a reference, and for an incomplete reference.
    """
    if envelope.dataref is None and envelope.datasha256 is None:
        return envelope
    has_data = bytes(envelope.data) not in (b"{}", b"null")
    if envelope.datasha256 is None:
        if not has_data:
            _invalid(
                "dataref without datasha256, and no data: send datasha256, by which owners read the payload"
            )
        return envelope
    if has_data:
        _invalid("both data and datasha256: send one of the two")
    try:
        envelope.reference()
    except ValueError as error:
        _invalid(str(error))
    return replace(envelope, data=Raw(b'"%s"' % envelope.datasha256.encode()))


def _header_attributes(headers: Headers) -> dict[str, str]:
    attributes: dict[str, str | None] = {}
    for name, content in headers:
        if name.startswith("ce_") and name[3:] not in ("data", "data_base64"):
            attributes[name[3:]] = None if content is None else content.decode()
    return {name: text for name, text in attributes.items() if text is not None}


def binary_attributes(record: Record) -> dict[str, str] | None:
    """Return the attributes in the headers of a valid record; None if the record is in structured mode."""
    headers = record.headers or []
    return _header_attributes(headers) if record.headers != HEADERS and _is_binary(headers) else None


def _media_type(content: bytes | None) -> str:
    """Return the media type in lower case, without parameters."""
    return (content or b"").decode("latin-1").partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def _long_attributes(value: bytes) -> Iterator[tuple[str, str]]:
    """Yield the attributes and extensions that may be too long; raises `ValueError` for invalid text."""
    for name, member in read_members(value).items():
        raw = bytes(member)
        if name not in ("data", "data_base64") and len(raw) > MAX_ATTRIBUTE:
            yield name, msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


def _check_lengths(attributes: Iterable[tuple[str, str]]) -> None:
    for name, text in attributes:
        if len(text) > MAX_ATTRIBUTE // 4 and len(text.encode()) > MAX_ATTRIBUTE:
            _invalid(f"{name[:100]} is longer than {MAX_ATTRIBUTE} bytes")


def _invalid(message: str) -> NoReturn:
    raise CheckFailed(Reason.INVALID_ENVELOPE, message)
