"""One command against one state, as its outcome reports it."""

from typing import Any

import pytest

from cqrs_cli.core import handle
from cqrs_cli.core.context import MAX_EVENTS
from tests.core.tally import Partition, command, record


@pytest.mark.parametrize(
    ("kind", "data", "code", "message"),
    [
        ("Add", {"n": -1}, "NEGATIVE", "only up"),
        ("Crash", {"how": "number"}, "REJECTED", "42"),
    ],
)
def test_rejection_has_its_code(kind: str, data: object, code: str, message: str) -> None:
    verdict = Partition().verdict(record(0, command(kind, data)))
    assert (verdict["reason"], verdict["code"], verdict["message"]) == ("BUSINESS_RULE", code, message)


#: Attributes with which a command takes the general path instead of the fast path.
CHECKED = {"expirytime": "2999-01-01T00:00:00Z"}


def add(n: int = 2, id: str = "1", **attributes: Any) -> bytes:
    """Return a command with `n` events."""
    return command("Add", {"n": n}, id=id, **attributes)


def test_last_event_that_is_allowed() -> None:
    partition = Partition()
    assert partition.verdict(record(0, add(MAX_EVENTS)))["status"] == "accepted"
    assert partition.verdict(record(1, add(MAX_EVENTS + 1, "2")))["message"] == "more than 10000 events"


@pytest.mark.parametrize("n", [1, 2])
def test_last_byte_of_a_record_is_allowed(n: int) -> None:
    partition = Partition()
    partition.feed(record(0, add(n)))
    limit = max(len(value) for value, _, _ in partition.events) + len(b"a") + handle.RECORD_OVERHEAD
    assert Partition(max_event_bytes=limit).verdict(record(0, add(n)))["status"] == "accepted"
    assert Partition(max_event_bytes=limit - 1).verdict(record(0, add(n)))["reason"] == "TOO_LARGE"


@pytest.mark.parametrize("attributes", [{}, CHECKED], ids=["plain", "checked"])
def test_last_byte_of_a_command_is_allowed(attributes: dict[str, Any]) -> None:
    partition = Partition()
    partition.feed(record(0, add(**attributes)))
    total = sum(len(value) for value, _, _ in partition.events)
    assert Partition(max_bytes=total).verdict(record(0, add(**attributes)))["status"] == "accepted"
    message = Partition(max_bytes=total - 1).verdict(record(0, add(**attributes)))["message"]
    assert message == f"event 1 makes it {total} bytes: the limit is {total - 1}"


@pytest.mark.parametrize("attributes", [{}, CHECKED], ids=["plain", "checked"])
def test_data_at_the_threshold_stay(attributes: dict[str, Any]) -> None:
    size = len(b'{"n":1}')
    inside, apart = Partition(payload_threshold=size), Partition(payload_threshold=size - 1)
    inside.feed(record(0, add(**attributes)))
    apart.feed(record(0, add(**attributes)))
    assert (inside.payloads, list(apart.payloads.values())) == ({}, [b'{"n":1}'])
    written = [b'"n":1' in value for value, _, _ in inside.events + apart.events]
    assert written == [True, True, False, False]


def test_what_is_no_event_is_named() -> None:
    verdict = Partition().verdict(record(0, command("Crash", {"how": "bytes"})))
    assert (verdict["reason"], verdict["message"]) == ("HANDLER_ERROR", "decide yielded bytes, not an event")
