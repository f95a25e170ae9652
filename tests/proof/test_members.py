"""Each change of one member of one record is found, and no record ends the verification."""

import json
from collections.abc import Iterator
from copy import copy

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.keyspace.lineage import PartitionLineage, fold_lineage
from cqrs_cli.keyspace.records import read_lineage_record
from tests.core.deferral.world import World
from tests.proof.deferral_histories import (
    CANCELLING,
    DEFERRED_BY_DECIDE,
    DEFERRED_TWICE,
    RESUBMITTED,
    violations_in,
)
from tests.proof.history import History, PlannedCommand, plan_command, random_commands, seeds
from tests.proof.repartitioned import repartitioned_history

Path = tuple[str, ...]

#: Members whose text may be changed without a contradiction, because no other record contains it.
UNCHECKED = {("data", "message"), ("data", "code")}
#: Values of any type that a changed member may have.
OTHER_VALUES = [None, -1, 0, 1, 1.5, 2**63, 10**30, "", "x", "9/9", True, [1], {"a": 1}]
other_values = st.sampled_from(OTHER_VALUES)
RARE_COMMANDS = [
    plan_command(1, "a", traceparent="00-1", tracestate="y"),
    PlannedCommand(11, "b"),
    plan_command(1, "c", expirytime="1970-01-01T00:00:00Z"),
]


def members_of(document: bytes, path: Path = ()) -> Iterator[Path]:
    """Yield the members of a JSON object and of the objects in it, and one further member of each object."""
    for name, member in read_members(document).items():
        yield (*path, name)
        if bytes(member).startswith(b"{"):
            yield from members_of(bytes(member), (*path, name))
    yield (*path, "further")


def with_member(document: bytes, path: Path, value: bytes | None) -> bytes:
    """Return the document with another value of a member, or without it. All other bytes stay."""
    members = read_members(document)
    first, *rest = path
    if rest:
        value = with_member(bytes(members[first]), tuple(rest), value)
    if value is None:
        members.pop(first, None)
    else:
        members[first] = msgspec.Raw(value)
    return encode_json(members)


@st.composite
def changes(draw: st.DrawFn, document: bytes, excluded: frozenset[Path] = frozenset()) -> bytes:
    """Change one member of a document, or add or remove one."""
    path = draw(st.sampled_from([path for path in members_of(document) if path not in excluded]))
    value = draw(st.none() | other_values.map(encode_json))
    return with_member(document, path, value)


@pytest.mark.covers("verifiable")
@given(st.data(), seeds, st.sampled_from(["outcomes", "events"]))
def test_every_changed_member_is_found(data: st.DataObject, seed: int, kind: str) -> None:
    """The data of events belong to the aggregate, and texts about a rejection to its code."""
    history = History([*random_commands(seed, 20), *RARE_COMMANDS])
    log: list[Record] = getattr(history, kind)
    index = data.draw(st.integers(0, len(log) - 1))
    value = log[index].value or b""
    unchecked = [
        path for path in members_of(value) if path[0] == "data" and (kind == "events" or path in UNCHECKED)
    ]
    altered = data.draw(changes(value, frozenset(unchecked)))
    log[index] = replace(log[index], value=altered)
    assert json.loads(altered) == json.loads(value) or history.violations() != []


@given(st.data(), seeds)
def test_every_changed_command_is_found(data: st.DataObject, seed: int) -> None:
    """No other record repeats the `source` of a command, or an attribute that `cqrs` does not know."""
    history = History([*random_commands(seed, 20), *RARE_COMMANDS])
    index = data.draw(st.integers(0, len(history.commands) - 1))
    value = history.commands[index].value or b""
    assume(value.startswith(b"{"))
    altered = data.draw(changes(value, frozenset({("source",), ("further",)})))
    history.commands[index] = replace(history.commands[index], value=altered)
    assert json.loads(altered) == json.loads(value) or history.violations() != []


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("world", [RESUBMITTED, DEFERRED_BY_DECIDE, DEFERRED_TWICE, CANCELLING])
@pytest.mark.parametrize("other", OTHER_VALUES, ids=str)
def test_every_other_topic_is_found(world: World, other: object) -> None:
    """A deferred command is resubmitted to its own commands topic only."""
    key, value = world.topic[-1] or ("", None)
    assert value is not None
    altered = with_member(value, ("topic",), encode_json(other))
    assert is_same_entry(key, value, altered) or violations_in(entry(world, key, altered)) != []


@pytest.mark.covers("verifiable")
@given(st.data(), st.sampled_from([RESUBMITTED, DEFERRED_BY_DECIDE, DEFERRED_TWICE, CANCELLING]))
def test_every_changed_entry_is_found(data: st.DataObject, world: World) -> None:
    key, value = world.topic[-1] or ("", None)
    assert value is not None
    altered = data.draw(changes(value))
    assert is_same_entry(key, value, altered) or violations_in(entry(world, key, altered)) != []


def is_same_entry(key: str, value: bytes, other: bytes) -> bool:
    """True if both documents contain the same entry. One of them may spell out a default, such as `"topic":""`."""
    try:
        return read_deferral(key.encode(), other) == read_deferral(key.encode(), value)
    except ValueError:
        return False


@given(st.sampled_from([RESUBMITTED, DEFERRED_BY_DECIDE]), st.text("T/0129", max_size=30))
def test_every_other_key_is_found(world: World, key: str) -> None:
    last, value = world.topic[-1] or ("", None)
    assert key == last or violations_in(entry(world, key, value)) != []


def entry(world: World, key: str, value: bytes | None) -> World:
    return world._replace(topic=(*world.topic[:-1], (key, value)))


REPARTITIONED = repartitioned_history()


@pytest.mark.covers("verifiable")
@given(st.data())
def test_any_changed_history_is_found(data: st.DataObject) -> None:
    """Only the time and author of a request may differ, and the `deferred` of a split, if no record is in between."""
    records = [growth.encode() for growth in REPARTITIONED.lineage_records]
    index = data.draw(st.integers(0, len(records) - 1))
    match data.draw(st.sampled_from(["drop", "double", "swap", "truncate", "change"])):
        case "drop":
            del records[index]
        case "double":
            records.append(records[index])
        case "swap":
            records[index - 1], records[index] = records[index], records[index - 1]
        case "truncate":
            del records[index:]
        case _:
            unchecked = {("grow", "time"), ("grow", "by"), ("split", "deferred")}
            records[index] = data.draw(changes(records[index], frozenset(unchecked)))
    history = copy(REPARTITIONED)
    try:
        history.lineage = fold_lineage(map(read_lineage_record, records), 1)
    except ValueError:
        return  # exit code 5
    if history.lineage.counts[-1] == 4 and history.lineage != REPARTITIONED.lineage:
        assert history.violations() != []


@pytest.mark.parametrize("kind", ["commands", "events", "outcomes", "deferred"])
def test_split_beyond_the_log_is_found(kind: str) -> None:
    history = copy(REPARTITIONED)
    history.change_split(**{kind: 2**40})
    problem = "is where the split from 1 to 2 partitions is, but the log ends at"
    assert any(f"{kind} 0@{2**40} {problem}" in violation for violation in history.violations())


def test_history_without_splits_is_found() -> None:
    history = copy(REPARTITIONED)
    history.lineage = PartitionLineage((1, 2, 4))
    assert "outcomes 1@0 is of a pending partition" in "; ".join(history.violations())


@given(st.data())
def test_every_changed_header_is_found(data: st.DataObject) -> None:
    """A dead letter repeats the message of its outcome."""
    history = History(
        [PlannedCommand(0, value=b"?"), PlannedCommand(11), plan_command(1, type="tally.Forget")]
    )
    index = data.draw(st.integers(0, len(history.letters) - 1))
    headers = [*(history.letters[index].headers or [])]
    position = data.draw(st.integers(0, len(headers) - 1))
    name, content = headers[position]
    other = data.draw(st.none() | st.binary(max_size=3))
    headers[position] = (name, other)
    history.letters[index] = replace(history.letters[index], headers=headers)
    assert other == content or history.violations() != []
