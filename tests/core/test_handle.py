"""One command against one state, as its outcome reports it."""

from typing import Any

import pytest

from cqrs_cli.core import handle
from cqrs_cli.core.context import MAX_EVENTS
from tests.core.tally import Partition, command, record


@pytest.mark.parametrize(
    ("name", "data", "code", "message"),
    [
        ("Add", {"n": -1}, "NEGATIVE", "only up"),
        ("Crash", {"mode": "number"}, "REJECTED", "42"),
    ],
)
def test_rejection_has_its_code(name: str, data: object, code: str, message: str) -> None:
    verdict = Partition().verdict(record(0, command(name, data)))
    assert (verdict["reason"], verdict["code"], verdict["message"]) == ("BUSINESS_RULE", code, message)


#: Attributes with which a command takes the general path instead of the fast path.
GENERAL_PATH_ATTRIBUTES = {"expirytime": "2999-01-01T00:00:00Z"}


def add(n: int = 2, id: str = "1", **attributes: Any) -> bytes:
    """Return a command with `n` events."""
    return command("Add", {"n": n}, id=id, **attributes)


def test_number_of_events_is_limited() -> None:
    partition = Partition()
    assert partition.verdict(record(0, add(MAX_EVENTS)))["status"] == "accepted"
    assert partition.verdict(record(1, add(MAX_EVENTS + 1, "2")))["message"] == "more than 10000 events"


@pytest.mark.parametrize("n", [1, 2])
def test_last_byte_of_a_record_is_allowed(n: int) -> None:
    partition = Partition()
    partition.decide(record(0, add(n)))
    limit = max(len(value) for value, _, _ in partition.events) + len(b"a") + handle.RECORD_OVERHEAD
    assert Partition(max_event_bytes=limit).verdict(record(0, add(n)))["status"] == "accepted"
    assert Partition(max_event_bytes=limit - 1).verdict(record(0, add(n)))["reason"] == "TOO_LARGE"


@pytest.mark.parametrize("attributes", [{}, GENERAL_PATH_ATTRIBUTES], ids=["plain", "checked"])
def test_last_byte_of_a_command_is_allowed(attributes: dict[str, Any]) -> None:
    partition = Partition()
    partition.decide(record(0, add(**attributes)))
    total = sum(len(value) for value, _, _ in partition.events)
    assert Partition(max_bytes=total).verdict(record(0, add(**attributes)))["status"] == "accepted"
    message = Partition(max_bytes=total - 1).verdict(record(0, add(**attributes)))["message"]
    assert message == f"with event 1 its events have {total} bytes: the limit is {total - 1}"


@pytest.mark.parametrize("attributes", [{}, GENERAL_PATH_ATTRIBUTES], ids=["plain", "checked"])
def test_data_at_the_threshold_stays_inline(attributes: dict[str, Any]) -> None:
    size = len(b'{"n":1}')
    inline, with_payload = Partition(payload_threshold=size), Partition(payload_threshold=size - 1)
    inline.decide(record(0, add(**attributes)))
    with_payload.decide(record(0, add(**attributes)))
    assert (inline.payloads, list(with_payload.payloads.values())) == ({}, [b'{"n":1}'])
    has_data = [b'"n":1' in value for value, _, _ in inline.events + with_payload.events]
    assert has_data == [True, True, False, False]


def test_value_that_is_no_event_is_named() -> None:
    verdict = Partition().verdict(record(0, command("Crash", {"mode": "bytes"})))
    assert (verdict["reason"], verdict["message"]) == ("HANDLER_ERROR", "decide yielded bytes, not an event")
