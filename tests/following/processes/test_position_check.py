"""Each position record that no process manager writes is found."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.messages.record import Record
from cqrs_cli.following.processes.position import ProcessPosition
from cqrs_cli.following.processes.position_check import PositionCheck
from cqrs_cli.ownership.claim import Claim

KEY = b"shop.order.events/3"
FIRST_POSITION = ProcessPosition(5, Claim(1, "run", 0, 0, 4, "id-1", 8), start=5)


def problems(*positions: ProcessPosition | bytes | None, key: bytes = KEY) -> list[str]:
    texts: list[str] = []
    values = [
        position.encode() if isinstance(position, ProcessPosition) else position for position in positions
    ]
    log = [Record(offset, 0, key, value) for offset, value in enumerate(values)]
    PositionCheck("p:0", texts.append).decode(log)
    return texts


@st.composite
def histories(draw: st.DrawFn) -> list[ProcessPosition]:
    """Positions of a process manager that handles, stops at and skips events, and accepts losses."""
    log = [FIRST_POSITION]
    for number in range(draw(st.integers(1, 6))):
        last = log[-1]
        match draw(st.sampled_from(["handle", "stop", "skip", "accept", "claim"])):
            case "handle":
                log.append(replace(last, offset=last.offset + draw(st.integers(1, 9)), stopped=None))
            case "stop":
                log.append(replace(last, stopped=last.offset))
            case "skip" if last.stopped is not None:
                skipped = {"skipped": last.offset, "skipped_before": last.all_skipped}
                log.append(replace(last, offset=last.offset + 1, stopped=None, **skipped))
            case "accept":
                offset = draw(st.sampled_from([offset for offset in range(20) if offset != last.accepted]))
                log.append(
                    replace(
                        last, offset=offset, stopped=None, accepted=offset, start=min(last.start or 0, offset)
                    )
                )
            case _:
                claim = replace(last.claim, number=last.claim.number + 1, run=f"run{number}")
                log.append(replace(last, claim=claim))
    return log


@given(histories())
def test_positions_without_fault_are_silent(log: list[ProcessPosition]) -> None:
    assert problems(*log) == []


OTHER_VALUES: list[Any] = [None, -1, 1.5, 2**70, "x", True, [-1], {"a": 1}]
OPTIONAL = {"start", "accepted", "stopped", "skipped", "skipped_before"}


@given(histories(), st.data())
def test_record_without_position_is_found(log: list[ProcessPosition], data: st.DataObject) -> None:
    """A member has a wrong type, is unknown, or is missing."""
    index = data.draw(st.integers(0, len(log) - 1))
    document = json.loads(log[index].encode())
    name = data.draw(st.sampled_from([*document, "further", "claim.n", "claim.further"]))
    part, _, member = name.rpartition(".")
    members = document[part] if part else document
    if (value := data.draw(st.sampled_from(OTHER_VALUES))) is None:
        members.pop(member, None)
    else:
        members[member] = value
    if document == json.loads(log[index].encode()) or (name in OPTIONAL and value is None):
        return
    values: list[ProcessPosition | bytes | None] = [
        *log[:index],
        json.dumps(document, separators=(",", ":")).encode(),
        *log[index + 1 :],
    ]
    assert any(text.startswith(f"p:0@{index}: it ") for text in problems(*values))


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"?", "is not a position: JSON is malformed"),
        (None, "is not a position: Input data was truncated"),
        (replace(FIRST_POSITION, stopped=6), "is 5, but the process manager stopped at event 6"),
        (replace(FIRST_POSITION, start=6), "is 5, but the process manager started at 6"),
        (replace(FIRST_POSITION, skipped=5), "is 5, but an operator has skipped the event 5"),
        (replace(FIRST_POSITION, offset=-1, start=None), "has the number -1"),
        (FIRST_POSITION.encode().replace(b":", b": ", 1), "has another form than a process manager writes"),
    ],
)
def test_impossible_position_is_named(record: ProcessPosition | bytes | None, problem: str) -> None:
    assert [text for text in problems(record) if text.startswith(f"p:0@0: it {problem}")] != []


@pytest.mark.parametrize("key", [b"", b"shop.order.events", b"shop.order.events/x", b"\xff/03", b"/3"])
def test_key_of_no_partition_is_found(key: bytes) -> None:
    assert "which is not of an events partition" in problems(FIRST_POSITION, key=key)[0]


def test_partition_beyond_the_claim_is_found() -> None:
    (problem,) = problems(FIRST_POSITION, key=b"shop.order.events/8")
    assert problem == "p:0@0: it is of partition 8, but its claim has 8 partitions"


@pytest.mark.parametrize(
    ("later_position", "problem"),
    [
        (
            replace(FIRST_POSITION, offset=6, start=6),
            "says that the process manager started at 6, an earlier record 5",
        ),
        (
            replace(FIRST_POSITION, offset=8, claim=replace(FIRST_POSITION.claim, number=3)),
            "has claim 3, an earlier record claim 4",
        ),
        (replace(FIRST_POSITION, offset=7), "goes back from 8 to 7, but no loss was accepted"),
        (replace(FIRST_POSITION, offset=9), "omits an event that an operator has skipped"),
    ],
)
def test_contradiction_of_two_positions_is_found(later_position: ProcessPosition, problem: str) -> None:
    earlier = replace(FIRST_POSITION, offset=8, skipped=7)
    assert f"p:0@1: it {problem}" in problems(earlier, later_position)
    assert problems(earlier, replace(later_position, accepted=later_position.offset, start=0)) == []
