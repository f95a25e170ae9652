"""An owner's decisions on any commands have no violations, and verification ends for any contents of other topics."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from tests.fuzz.damage import damaged_bytes, damaged_documents
from tests.proof.history import (
    History,
    PlannedCommand,
    command_document,
    plan_command,
    random_commands,
    with_value,
)

COMMANDS: list[dict[str, Any]] = [
    json.loads(command_document(planned, "c"))
    for planned in (
        plan_command(1),
        plan_command(2, "b", expectedversion="exists", correlationid="x"),
        plan_command(3, expirytime="1970-01-01T00:00:00Z", expectedversion=7),
        plan_command(0, expirytime="9999-12-31T23:59:59-23:59", data=None),
        plan_command(1, data={"n": 1, "m": 2}),
    )
]

values = st.one_of(
    damaged_documents(COMMANDS),
    damaged_bytes([json.dumps(command).encode() for command in COMMANDS]),
    st.none(),
)
keys = st.sampled_from([None, b"", b"a", b"a", b"b", b"z", b"\xff"])


def damaged_values(log: list[Record]) -> st.SearchStrategy[bytes]:
    valid_values = [record.value or b"" for record in log]
    return st.one_of(
        damaged_documents([json.loads(value) for value in valid_values]), damaged_bytes(valid_values)
    )


@pytest.mark.covers("verifiable")
@given(st.lists(st.tuples(values, keys), max_size=6))
def test_decided_commands_are_clean(values_and_keys: list[tuple[bytes | None, bytes | None]]) -> None:
    history = History([plan_command(1)])
    for value, key in values_and_keys:
        previous = history.commands[-1]
        history.commands.append(
            Record(previous.offset + 2, previous.timestamp + 300, key, value, previous.headers)
        )
    history.committed = history.commands[-1].offset + 1
    history.decide()
    assert history.violations(on_disk=True) == []


@given(st.data(), st.sampled_from(["outcomes", "events"]))
def test_any_log_is_read_to_end(data: st.DataObject, kind: str) -> None:
    history = History(random_commands(1))
    log: list[Record] = getattr(history, kind)
    index = data.draw(st.integers(0, len(log) - 1))
    log[index] = with_value(log[index], data.draw(damaged_values(log)))
    report = history.verify(on_disk=True)
    assert (report.outcomes, report.events) == (len(history.outcomes), len(history.events))


@given(st.data())
def test_dead_letter_with_any_headers(data: st.DataObject) -> None:
    history = History([PlannedCommand(0, value=b"?")])
    letter = history.letters[0]
    valid_headers = letter.headers or []
    content = st.none() | damaged_bytes([value or b"" for _, value in valid_headers])
    headers = [(name, data.draw(content)) for name, _ in valid_headers[data.draw(st.integers(0, 2)) :]]
    history.letters[0] = Record(0, letter.timestamp, letter.key, letter.value, headers)
    assert history.verify().dead_letters == 1
