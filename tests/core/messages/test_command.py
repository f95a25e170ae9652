"""Reading command records: which records are envelopes, and which are refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Headers, Record

STRUCTURED = (b"application/cloudevents+json", b"Application/CloudEvents+JSON; charset=utf-8")


def command(**members: Any) -> bytes:
    defaults = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t.T", "subject": "a"}
    return json.dumps({**defaults, **members}).encode()


BINARY_HEADERS: Headers = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t.T"),
    ("ce_subject", b"a"),
]


STRUCTURED_HEADERS: Headers = [*HEADERS]


def read_value(value: bytes | None, headers: Headers | None = STRUCTURED_HEADERS) -> CommandEnvelope:
    return read_command(Record(0, 0, b"a", value, headers))


def is_invalid(value: bytes | None, headers: Headers | None = STRUCTURED_HEADERS) -> bool:
    with pytest.raises(CheckFailed) as raised:
        read_value(value, headers)
    return raised.value.reason is Reason.INVALID_ENVELOPE


@pytest.mark.parametrize("content_type", STRUCTURED)
def test_media_type_ignores_parameters_and_case(content_type: bytes) -> None:
    assert read_value(command(), [("content-type", content_type)]).id == "1"


@pytest.mark.parametrize(
    "content_type", [None, b"application/json", b"application/vnd.x+json; v=1", b"TEXT/JSON"]
)
def test_binary_data_is_json_by_default(content_type: bytes | None) -> None:
    headers = BINARY_HEADERS if content_type is None else [*BINARY_HEADERS, ("content-type", content_type)]
    assert bytes(read_value(b'{"n":1}', headers).data) == b'{"n":1}'


def test_last_of_repeated_headers_counts() -> None:
    assert read_value(b"{}", [*BINARY_HEADERS, ("ce_id", b"2")]).id == "2"
    assert read_value(command(), [("content-type", b"application/json"), *HEADERS]).id == "1"
    assert is_invalid(command(), [*HEADERS, ("content-type", b"text/plain")])


def test_structured_mode_has_priority() -> None:
    headers: Headers = [*((name, b"other") for name, _ in BINARY_HEADERS), *HEADERS]
    assert read_value(command(), headers).id == "1"


def test_other_headers_are_not_attributes() -> None:
    """A header whose name only ends like an attribute is ignored, and the data are the record's value, not a header."""
    other_headers: Headers = [
        ("my_type", b"other"),
        ("type", b"other"),
        ("ce_data", b"other"),
        ("ce_data_base64", b"?"),
    ]
    envelope = read_value(b'{"n":1}', [*BINARY_HEADERS, *other_headers])
    assert (envelope.type, bytes(envelope.data), envelope.data_base64) == ("t.T", b'{"n":1}', UNSET)


@pytest.mark.parametrize(
    ("value", "headers", "message"),
    [
        (
            b"{}",
            [("content-type", b"application/cloudevents+avro")],
            "content type application/cloudevents+avro",
        ),
        (b"{}", [], "neither a CloudEvents content type nor a ce_specversion header"),
        (b"{}", [*BINARY_HEADERS, ("content-type", b"text/plain")], "the data must be JSON, not text/plain"),
        (b"{}", [*BINARY_HEADERS, ("ce_id", b"")], "id, source, type and subject must not be empty"),
        (b"{}", [*BINARY_HEADERS, ("ce_id", b"\xff")], "can't decode byte 0xff"),
        (None, HEADERS, "the value is null"),
    ],
)
def test_error_of_invalid_envelope_is_specific(value: bytes | None, headers: Headers, message: str) -> None:
    with pytest.raises(CheckFailed) as raised:
        read_value(value, headers)
    assert message in raised.value.message


def test_missing_data_is_an_empty_object() -> None:
    assert bytes(read_value(command()).data) == b"{}"
    assert bytes(read_value(b"", BINARY_HEADERS).data) == b"{}"


def test_null_attribute_is_absent() -> None:
    envelope = read_value(
        command(expectedversion=None, expirytime=None, correlationid=None, data_base64=None)
    )
    assert (envelope.expected_text(), envelope.expirytime, envelope.correlationid) == (None, None, None)
    assert read_value(b"{}", [*BINARY_HEADERS, ("ce_expectedversion", None)]).expected_text() is None


@pytest.mark.parametrize(
    ("version", "text"),
    [("7", "7"), (7, "7"), (">=7", ">=7"), ("", ""), (7.0, "7.0"), (-1, "-1"), (True, "true"), ([1], "[1]")],
)
def test_expected_version_stays_as_received(version: Any, text: str) -> None:
    assert read_value(command(expectedversion=version)).expected_text() == text


def test_binary_attributes_are_strings() -> None:
    assert read_value(b"{}", [*BINARY_HEADERS, ("ce_expectedversion", b"7")]).expected_text() == "7"
    assert read_value(b"{}", [*BINARY_HEADERS, ("ce_expectedversion", b'"7"')]).expected_text() == '"7"'


@pytest.mark.parametrize("headers", [None, [], [("content-type", b"application/json")], [("ce_id", b"1")]])
def test_cloudevent_needs_content_type_or_specversion(headers: Headers | None) -> None:
    assert is_invalid(command(), headers)


@pytest.mark.parametrize(
    "content_type",
    [b"application/cloudevents-batch+json", b"application/cloudevents+avro", b"application/cloudevents"],
)
def test_other_forms_of_cloudevents_are_refused(content_type: bytes) -> None:
    assert is_invalid(command(), [("content-type", content_type)])
    assert is_invalid(command(), [*BINARY_HEADERS, ("content-type", content_type)])


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/octet-stream", b"\xff"])
def test_binary_data_must_be_json(content_type: bytes) -> None:
    assert is_invalid(b"{}", [*BINARY_HEADERS, ("content-type", content_type)])


@pytest.mark.parametrize("missing", [name for name, _ in BINARY_HEADERS])
def test_required_attributes_must_not_be_empty(missing: str) -> None:
    other_headers = [header for header in BINARY_HEADERS if header[0] != missing]
    assert is_invalid(b"{}", other_headers)
    assert is_invalid(b"{}", [*other_headers, (missing, b"")])
    assert is_invalid(b"{}", [*other_headers, (missing, None)])
    assert is_invalid(command(**{missing[3:]: ""}))
    assert is_invalid(command(**{missing[3:]: None}))
    assert is_invalid(command(**{missing[3:]: 1}))


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"\xef\xbb\xbf" + command(),
        command() + b" x",
        command()[:-1],
        command(specversion="0.3"),
        command(data_base64="e30="),
        command(datacontenttype="text/xml"),
        command(expirytime="2026-11-21T01:02:03"),
        command(expirytime=5),
        command(correlationid=5),
        b'{"id":"\\ud800",' + command()[1:],
        command().replace(b'"1"', b'"\xff"'),
        b'{"data":' * 100_000,
    ],
)
def test_other_values_are_not_envelopes(value: bytes | None) -> None:
    assert is_invalid(value)


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "correlationid", "traceparent", "time"])
def test_an_attribute_has_at_most_1024_bytes(name: str) -> None:
    longest = "ä" * 512
    assert getattr(read_value(command(**{name: longest})), name) == longest
    assert is_invalid(command(**{name: longest + "x"}))
    headers = [header for header in BINARY_HEADERS if header[0] != f"ce_{name}"]
    assert getattr(read_value(b"{}", [*headers, (f"ce_{name}", longest.encode())]), name) == longest
    assert is_invalid(b"{}", [*headers, (f"ce_{name}", longest.encode() + b"x")])


@pytest.mark.parametrize("name", ["ext", "dataschema", "datacontenttype", "expirytime"])
def test_every_attribute_has_the_limit(name: str) -> None:
    longest = "ä" * 512
    assert is_invalid(command(**{name: longest + "x"}))
    assert is_invalid(b"{}", [*BINARY_HEADERS, (f"ce_{name}", longest.encode() + b"x")])
    assert read_value(command(ext=longest)) and read_value(
        b"{}", [*BINARY_HEADERS, ("ce_ext", longest.encode())]
    )
    assert is_invalid(command(ext=list(range(500)))) and read_value(command(data={"text": longest * 9}))


def test_errors_name_attributes_with_long_values() -> None:
    """An extension that is not text has a limit, too. Bytes in `data_base64` are refused for another reason."""
    for value, message in (
        (command(ext=list(range(500))), "ext is longer than 1024 bytes"),
        (command(data_base64="e" * 2000), "data_base64 is not JSON"),
    ):
        with pytest.raises(CheckFailed, match=message):
            read_value(value)


def test_binary_command_without_expected_version() -> None:
    assert read_value(b"{}", BINARY_HEADERS).expectedversion is UNSET
    assert read_value(b"{}", BINARY_HEADERS).expected_text() is None


def test_unreadable_header_name_is_refused() -> None:
    assert is_invalid(command(), UNREADABLE_HEADERS)


def test_expiry_keeps_its_utc_offset() -> None:
    expected = datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC) + timedelta(hours=2)
    assert read_value(command(expirytime="2026-11-21T05:02:03+02:00")).expirytime == expected


names = st.sampled_from(
    ["content-type", "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "x"]
)
contents = st.none() | st.binary(max_size=8) | st.sampled_from([b"1.0", b"application/json", *STRUCTURED])
values = st.none() | st.binary(max_size=30) | st.sampled_from([command(), command()[:-1], b"{}"])


@given(values, st.none() | st.lists(st.tuples(names, contents), max_size=8))
def test_anything_is_read_or_invalid(value: bytes | None, headers: Headers | None) -> None:
    try:
        envelope = read_command(Record(0, 0, b"a", value, headers))
    except CheckFailed as error:
        assert error.reason is Reason.INVALID_ENVELOPE
    else:
        assert envelope.id and envelope.type and envelope.subject


def test_unreadable_record_has_its_reason() -> None:
    for value, headers, message in (
        (command(), UNREADABLE_HEADERS, "a header has a name that is not UTF-8"),
        (command(more="?").replace(b"?", b"\xff"), STRUCTURED_HEADERS, "utf-8"),
    ):
        with pytest.raises(CheckFailed, match=message):
            read_value(value, headers)
