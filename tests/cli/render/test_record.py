import json
from typing import Any

import pytest

from cqrs_cli.cli.output import json_line
from cqrs_cli.cli.render.record import record_document, record_line
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import reference_to, with_reference
from cqrs_cli.core.messages.record import Headers, Record

EVENT = b'{"type":"a.Opened","aggregateversion":3,"data":{"owner":"Ada"}}'
OUTCOME = b'{"type":"a.Open.rejected","data":{"status":"rejected","reason":"NOT_FOUND","version":0}}'


def shown_document(value: bytes | None, **fields: Any) -> Any:
    """Return the JSON document of a record with this value."""
    line = json_line(record_document(1, Record(7, 1000, b"k", value, **fields)))
    assert b"\n" not in line
    return json.loads(line)


def test_records_are_shown_with_their_offset() -> None:
    assert shown_document(b'{"a":1}') == {
        "partition": 1,
        "offset": 7,
        "timestamp": 1000,
        "key": "k",
        "message": {"a": 1},
    }


@pytest.mark.parametrize(
    ("value", "message", "encoding"),
    [
        (b"[1,2]", [1, 2], None),
        (b'{\n  "a": 1\r\n}', {"a": 1}, None),
        (None, None, None),
        (b"", "", "text"),
        (b"  ", "  ", "text"),
        (b"plain", "plain", "text"),
        (b'{"a":\xff}', "eyJhIjr/fQ==", "base64"),
        (b"[" * 2000, "[" * 2000, "text"),
        (b'"\\ud800"', '"\\ud800"', "text"),
    ],
)
def test_any_value_is_shown_safely(value: bytes | None, message: object, encoding: str | None) -> None:
    assert (shown_document(value)["message"], shown_document(value).get("encoding")) == (message, encoding)


def test_binary_keys_are_shown_as_base64() -> None:
    assert record_document(0, Record(0, 0, b"\xfe", b"1"))["keyencoding"] == "base64"


def test_plain_content_types_are_not_shown() -> None:
    assert "headers" not in shown_document(EVENT, headers=HEADERS)
    assert shown_document(EVENT, headers=[("a", b"1"), ("a", b"2")])["headers"] == {"a": "2"}


def test_text_sums_up_an_event() -> None:
    line = record_line(1, Record(7, 1000, b"acc", EVENT))
    assert line == '1970-01-01T00:00:01.000Z  1@7  acc  v3  a.Opened  {"owner":"Ada"}'


def test_text_names_a_payload() -> None:
    """The hash is shown in place of the data, which may be missing and need not be read."""
    event_with_reference = with_reference(EVENT, "a", reference_to(b"{}"))
    assert record_line(1, Record(7, 1000, b"acc", event_with_reference)).endswith(
        f"a.Opened  payload {reference_to(b'{}').sha256}"
    )


def test_text_sums_up_an_outcome() -> None:
    assert record_line(1, Record(7, 1000, b"acc", OUTCOME)).endswith("acc  a.Open.rejected  v0  NOT_FOUND")


def test_text_explains_a_dead_letter() -> None:
    headers: Headers = [("cqrs.reason", b"INVALID_ENVELOPE"), ("cqrs.message", b"no JSON")]
    assert record_line(1, Record(7, 1000, None, b"\xff", headers)).endswith(
        "null  INVALID_ENVELOPE: no JSON  \\xff"
    )


def test_text_holds_no_control_characters() -> None:
    assert record_line(0, Record(0, 0, b"\x1b[2J", b"\x07\n")).isprintable()
