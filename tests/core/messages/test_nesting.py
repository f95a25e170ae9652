"""All written records nest far less deeply than the limit of readers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from aggregates import bank_account, counter, order, sensor
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import fold_event
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.nesting import MAX_ENVELOPE_NESTING, MAX_NESTING, check_nesting
from cqrs_cli.core.messages.outcome import Verdict, read_outcome
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from tests.support.commands import STRUCTURED_HEADERS, command, document


class Note(cqrs.Command):
    """Write `body` inside `boxes` lists."""

    body: Any
    boxes: int = 0


class Noted(cqrs.Event):
    body: Any


class Notes(cqrs.State):
    last: Any = None


def decide(command: Note, notes: Notes) -> list[Noted]:
    body = command.body
    for _ in range(command.boxes):
        body = [body]
    return [Noted(body)]


def evolve(notes: Notes, event: Noted) -> Notes:
    return Notes(event.body)


NOTES = Aggregate.of("notes", cqrs.Decider(decide, evolve, Notes()))


def nested_lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def decide_note(levels: int, boxes: int = 0) -> tuple[Verdict, list[bytes]]:
    data = b'{"body":%b,"boxes":%d}' % (nested_lists(levels), boxes)
    value = json.dumps(document("notes.Note", "a", "1", 0)).encode().replace(b'"data": 0', b'"data":' + data)
    record = Record(0, 0, b"a", value, STRUCTURED_HEADERS)
    decisions = decide_batch(NOTES, [record], BatchContext(0, lambda _: None, lambda *_: None, lambda: 0))
    return read_outcome(decisions.outcomes[0][0]).data, [event[0] for event in decisions.events]


@pytest.mark.covers("bad-input")
def test_events_are_read_at_depth() -> None:
    verdict, (event,) = decide_note(MAX_NESTING - 1)
    assert verdict.status == "accepted"

    def recurse(levels: int) -> None:
        if levels:
            recurse(levels - 1)
        else:
            fold_event(NOTES, None, read_event(event))

    recurse(500)


def test_deeply_nested_command_is_refused() -> None:
    for levels in (MAX_NESTING, MAX_ENVELOPE_NESTING - 2):
        verdict, events = decide_note(levels)
        assert (verdict.reason, events) == ("INVALID_PAYLOAD", [])
        assert verdict.message == f"nested more than {MAX_NESTING} levels deep"


@pytest.mark.covers("bad-input")
def test_stack_of_the_reader_does_not_matter() -> None:
    def reason(levels: int, depth: int) -> str | None:
        if depth:
            return reason(levels, depth - 1)
        extension = command("notes.Note", "a", "1", {"body": 1}, ext=0).value or b""
        value = extension.replace(b'"ext": 0', b'"ext": ' + nested_lists(levels))
        try:
            read_command(Record(0, 0, b"a", value, STRUCTURED_HEADERS))
        except CheckFailed as error:
            return error.reason.name
        return None

    for levels in (100, MAX_ENVELOPE_NESTING - 1, MAX_ENVELOPE_NESTING, 400, 600, 970, 2000):
        assert reason(levels, 0) == reason(levels, 400), levels
    assert reason(MAX_ENVELOPE_NESTING - 1, 0) is None
    assert reason(600, 0) == "INVALID_ENVELOPE"


def test_deeply_nested_event_is_refused() -> None:
    verdict, events = decide_note(MAX_NESTING - 5, boxes=5)
    assert (verdict.reason, events) == ("HANDLER_ERROR", [])


class Tree(cqrs.State):
    left: "Tree | None" = None


class Grown(cqrs.Event):
    tree: Tree


def test_only_recursive_types_may_nest() -> None:
    def decide_tree(command: counter.Increment, tree: Tree) -> list[Grown]:
        return [Grown(tree)]

    def evolve_tree(tree: Tree, event: Grown) -> Tree:
        return Tree(event.tree)

    assert Aggregate.of("tree", cqrs.Decider(decide_tree, evolve_tree, Tree())).may_nest
    for module in (bank_account, counter, order, sensor):
        assert not Aggregate.of("flat", module.decider).may_nest


@given(
    st.recursive(
        st.text(max_size=9) | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_brackets_in_strings_do_not_count(value: Any) -> None:
    check_nesting(json.dumps([value, '[{"\\' * 60, "]" * 60]).encode())
    with pytest.raises(ValueError, match="levels deep"):
        check_nesting(json.dumps([value, '"[]\\']).encode()[:-1] + b"," + nested_lists(MAX_NESTING) + b"]")


@pytest.mark.parametrize("prefix", [b"", b"[]" * 200, b'{"a":[]}' * 200, nested_lists(90) * 3])
def test_limit_is_exact(prefix: bytes) -> None:
    """Closed brackets do not count."""
    check_nesting(prefix + nested_lists(MAX_NESTING))
    with pytest.raises(ValueError, match="more than 100 levels"):
        check_nesting(prefix + nested_lists(MAX_NESTING + 1))
    with pytest.raises(ValueError, match="more than 100 levels"):
        check_nesting(prefix + b"[" * 60 + b"[]" + b"[" * 41)


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("end", [b"", b"\\"])
def test_unclosed_string_takes_linear_time(end: bytes) -> None:
    value = b'{"a":[' + b"[]," * 300 + b'"' + b'\\"' * 500_000 + end  # quadratic time would take an hour
    check_nesting(value)
    with pytest.raises(CheckFailed):
        read_command(Record(0, 0, b"a", value, STRUCTURED_HEADERS))


@pytest.mark.parametrize("length", [10, 2000])
def test_envelope_may_nest_deeper_than_data(length: int) -> None:
    """In a long document the depth is counted."""
    value = (
        b'{"x":%b,' % (b"[" * 200 + b"]" * 200)
        + json.dumps(document("t.T", "a", "1", "p" * length)).encode()[1:]
    )
    assert read_command(Record(0, 0, b"a", value, STRUCTURED_HEADERS)).id == "1"
