"""Events are read back, and name partition and offset of their command."""

import json

import pytest

from cqrs_cli.core.messages.event import EventEnvelope, read_event


def event(id: str) -> EventEnvelope:
    texts = ("specversion", "source", "type", "subject", "time", "causationid", "correlationid")
    numbers = ("aggregateversion", "eventindex", "eventcount")
    members = {"id": id, **dict.fromkeys(texts, "x"), **dict.fromkeys(numbers, 1)}
    return read_event(json.dumps(members).encode())


@pytest.mark.parametrize("position", [(0, 0, 0), (3, 18274, 2), (3, 2**63 - 1, 2**31 - 1)])
def test_id_has_the_position(position: tuple[int, int, int]) -> None:
    assert event("/".join(map(str, position))).position() == position


@pytest.mark.parametrize(
    "id", [f"3/{2**63}/0", f"3/0/{2**31}", "3/-1/0", "3/0/-1", "3/0", "3/0/x", "3/0/0/0"]
)
def test_foreign_id_has_no_position(id: str) -> None:
    with pytest.raises(ValueError):
        event(id).position()


def test_deep_event_is_refused() -> None:
    # From 3.14 on, Python's recursion limit is the stack, so the parser reaches the end of the data first.
    with pytest.raises(ValueError, match=r"nested too deeply|Input data was truncated"):
        read_event(b'{"data":' + b"[" * 100_000)


def test_negative_position_is_named() -> None:
    with pytest.raises(ValueError, match=r"^not an event id, .*: '0/-1/0'$"):
        event("0/-1/0").position()
