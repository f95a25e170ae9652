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
from cqrs_cli.core.lineage import PartitionLineage, fold_lineage
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.repartitioning import lineage_value, read_lineage_record
from tests.core.deferral.world import World
from tests.proof.deferral_histories import CANCELLING, LATER, SAID, TWICE, proved
from tests.proof.history import History, Wish, drawn, seeds, wish
from tests.proof.repartitioned import grown_partitions

Path = tuple[str, ...]

#: Members whose other text no record contradicts.
FREE = {("data", "message"), ("data", "code")}
#: Values of any type that a changed member may have.
OTHER_VALUES = [None, -1, 0, 1, 1.5, 2**63, 10**30, "", "x", "9/9", True, [1], {"a": 1}]
OTHERS = st.sampled_from(OTHER_VALUES)
RARE = [
    wish(1, "a", traceparent="00-1", tracestate="y"),
    Wish(11, "b"),
    wish(1, "c", expirytime="1970-01-01T00:00:00Z"),
]


def members_of(document: bytes, path: Path = ()) -> Iterator[Path]:
    """Yield the members of a JSON object and of the objects in it, and one further member of each object."""
    for name, member in read_members(document).items():
        yield (*path, name)
        if bytes(member).startswith(b"{"):
            yield from members_of(bytes(member), (*path, name))
    yield (*path, "further")


def changed(document: bytes, path: Path, value: bytes | None) -> bytes:
    """Return the document with another value of a member, or without it. All other bytes stay."""
    members = read_members(document)
    first, *rest = path
    if rest:
        value = changed(bytes(members[first]), tuple(rest), value)
    if value is None:
        members.pop(first, None)
    else:
        members[first] = msgspec.Raw(value)
    return encode_json(members)


@st.composite
def changes(draw: st.DrawFn, document: bytes, kept: frozenset[Path] = frozenset()) -> bytes:
    """Change one member of a document, or add or remove one."""
    path = draw(st.sampled_from([path for path in members_of(document) if path not in kept]))
    value = draw(st.none() | OTHERS.map(encode_json))
    return changed(document, path, value)


@pytest.mark.covers("verifiable")
@given(st.data(), seeds, st.sampled_from(["outcomes", "events"]))
def test_every_changed_member_is_found(data: st.DataObject, seed: int, kind: str) -> None:
    """The data of events belong to the aggregate, and texts about a rejection to its code."""
    history = History([*drawn(seed, 20), *RARE])
    log: list[Record] = getattr(history, kind)
    at = data.draw(st.integers(0, len(log) - 1))
    value = log[at].value or b""
    free = [path for path in members_of(value) if path[0] == "data" and (kind == "events" or path in FREE)]
    after = data.draw(changes(value, frozenset(free)))
    log[at] = replace(log[at], value=after)
    assert json.loads(after) == json.loads(value) or history.violations() != []


@given(st.data(), seeds)
def test_every_changed_command_is_found(data: st.DataObject, seed: int) -> None:
    """No other record repeats the `source` of a command, or an attribute that `cqrs` does not know."""
    history = History([*drawn(seed, 20), *RARE])
    at = data.draw(st.integers(0, len(history.commands) - 1))
    value = history.commands[at].value or b""
    assume(value.startswith(b"{"))
    after = data.draw(changes(value, frozenset({("source",), ("further",)})))
    history.commands[at] = replace(history.commands[at], value=after)
    assert json.loads(after) == json.loads(value) or history.violations() != []


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("world", [SAID, LATER, TWICE, CANCELLING])
@pytest.mark.parametrize("other", OTHER_VALUES, ids=str)
def test_every_other_topic_is_found(world: World, other: object) -> None:
    """A deferred command is resubmitted to its own commands topic only."""
    key, value = world.topic[-1] or ("", None)
    assert value is not None
    after = changed(value, ("topic",), encode_json(other))
    assert is_same_entry(key, value, after) or proved(entry(world, key, after)) != []


@pytest.mark.covers("verifiable")
@given(st.data(), st.sampled_from([SAID, LATER, TWICE, CANCELLING]))
def test_every_changed_entry_is_found(data: st.DataObject, world: World) -> None:
    key, value = world.topic[-1] or ("", None)
    assert value is not None
    after = data.draw(changes(value))
    assert is_same_entry(key, value, after) or proved(entry(world, key, after)) != []


def is_same_entry(key: str, value: bytes, other: bytes) -> bool:
    """True if both documents contain the same entry. One of them may spell out a default, such as `"topic":""`."""
    try:
        return read_deferral(key.encode(), other) == read_deferral(key.encode(), value)
    except ValueError:
        return False


@given(st.sampled_from([SAID, LATER]), st.text("T/0129", max_size=30))
def test_every_other_key_is_found(world: World, key: str) -> None:
    last, value = world.topic[-1] or ("", None)
    assert key == last or proved(entry(world, key, value)) != []


def entry(world: World, key: str, value: bytes | None) -> World:
    return world._replace(topic=(*world.topic[:-1], (key, value)))


GROWN = grown_partitions()


@pytest.mark.covers("verifiable")
@given(st.data())
def test_any_changed_history_is_found(data: st.DataObject) -> None:
    """Only texts of a request, and a `deferred` that no record crosses, may differ."""
    records = [lineage_value(growth) for growth in GROWN.growths]
    at = data.draw(st.integers(0, len(records) - 1))
    match data.draw(st.sampled_from(["drop", "double", "swap", "truncate", "change"])):
        case "drop":
            del records[at]
        case "double":
            records.append(records[at])
        case "swap":
            records[at - 1], records[at] = records[at], records[at - 1]
        case "truncate":
            del records[at:]
        case _:
            free = {("grow", "time"), ("grow", "by"), ("split", "deferred")}
            records[at] = data.draw(changes(records[at], frozenset(free)))
    grown = copy(GROWN)
    try:
        grown.lineage = fold_lineage(map(read_lineage_record, records), 1)
    except ValueError:
        return  # exit code 5
    if grown.lineage.counts[-1] == 4 and grown.lineage != GROWN.lineage:
        assert grown.found() != []


@pytest.mark.parametrize("kind", ["commands", "events", "outcomes", "deferred"])
def test_split_beyond_the_log_is_found(kind: str) -> None:
    grown = copy(GROWN)
    grown.change_split(**{kind: 2**40})
    what = "is where the split from 1 to 2 partitions is, and the log ends at"
    assert any(f"{kind} 0@{2**40} {what}" in one for one in grown.found())


def test_history_without_splits_is_found() -> None:
    grown = copy(GROWN)
    grown.lineage = PartitionLineage((1, 2, 4))
    assert "outcomes 1@0 is of a partition that has not begun" in "; ".join(grown.found())


@given(st.data())
def test_every_changed_header_is_found(data: st.DataObject) -> None:
    """A dead letter repeats the message of its outcome."""
    history = History([Wish(0, value=b"?"), Wish(11), wish(1, type="tally.Forget")])
    at = data.draw(st.integers(0, len(history.letters) - 1))
    headers = [*(history.letters[at].headers or [])]
    place = data.draw(st.integers(0, len(headers) - 1))
    name, content = headers[place]
    other = data.draw(st.none() | st.binary(max_size=3))
    headers[place] = (name, other)
    history.letters[at] = replace(history.letters[at], headers=headers)
    assert other == content or history.violations() != []
