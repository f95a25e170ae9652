"""Each change of the records about a deferred command is found, with any cause and any effect."""

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from tests.core.deferral.world import RULES, Shard, World
from tests.proof.deferral_histories import (
    CANCELLING,
    DECIDED,
    LATER,
    SAID,
    TWICE,
    WAITS,
    proved,
    proved_in_pieces,
    walked,
    walked_on,
)

Change = Callable[[World], World]


STRICT = replaced(RULES, limits=RULES.limits._replace(clock_tolerance=0))
AHEAD = walked_on(World(("x",), (), rules=STRICT))  # resubmitted too early, and once more
ONCE_MORE = walked("late", "y")
CANCELLED = walked("x", "cancel")
RELEASED = walked("x", "release")

DATA = (b'"after": 0', b'"after": 5')
NOT_BEFORE = (b"00:00:02Z", b"00:00:03Z")
NAMED = (b'"id":"x"', b'"id":"z"')
PLACED = (b'"subject":"a"', b'"subject":"b"')
MORE = (b'"source"', b'"correlationid":"c","source"')
TRACED = (b'"source"', b'"traceparent":"00-1","source"')


def entry(number: int = -1, **members: Any) -> Change:
    """Change the members of an entry. `command` replaces a text in its command."""

    def change(world: World) -> World:
        topic = list(world.topic)
        record = topic[number]
        assert record is not None and record[1] is not None
        topic[number] = (record[0], altered(read_deferral(record[0].encode(), record[1]), members).value())
        return world._replace(topic=tuple(topic))

    return change


def altered(entry: Deferral, members: dict[str, Any]) -> Deferral:
    old, new = members.get("command", (b"", b""))
    assert old in entry.command
    return replace(entry, **{**members, "command": entry.command.replace(old, new)})


def outcome(number: int, old: bytes, new: bytes) -> Change:
    return lambda world: world._replace(outcomes=exchanged(world.outcomes, number, old, new))


def command(number: int, texts: tuple[bytes, bytes]) -> Change:
    return lambda world: world._replace(commands=exchanged(world.commands, number, *texts))


def exchanged(
    log: tuple[tuple[bytes, int], ...], number: int, old: bytes, new: bytes
) -> tuple[tuple[bytes, int], ...]:
    value, timestamp = log[number]
    assert old in value, value
    return (*log[:number], (value.replace(old, new), timestamp), *log[number + 1 :])


def decided_with(**members: Any) -> World:
    """Let an owner read the altered entry, resubmit it, and decide it."""
    world = entry(**members)(WAITS)
    shard = Shard(tuple(altered(one, members) for one in world.shard.entries), *world.shard[1:])
    return walked_on(world._replace(shard=shard))


#: Changes of a waiting entry, whose command may have been deleted.
FIELDS: list[dict[str, Any]] = [
    {"command": DATA},
    {"command": NAMED},
    {"command": PLACED},
    {"id": "z"},
    {"subject": "b"},
    {"due": 1999},
    {"due": 2001},
    {"fingerprint": 5},
    {"version": 1},
    {"timestamp": 1},
    {"reason": "LATER"},
    {"cancelled": True},
    {"due": 0},
    {"attempt": 1},
    {"resubmitted_offset": 7, "resubmitted_topic": "T"},
]
CHANGES: list[tuple[World, Change]] = [
    *((WAITS, entry(**one)) for one in FIELDS),
    *((SAID, entry(**one)) for one in FIELDS[:-1]),
    *((DECIDED, entry(0, **one)) for one in FIELDS[:5]),
    *((LATER, entry(**one)) for one in ({"due": 999}, {"attempt": 0}, {"attempt": 2}, {"cancelled": True})),
    *((CANCELLING, entry(**one)) for one in ({"cancelled": False}, {"due": 2000})),
    (WAITS, outcome(0, b"00:00:02.000Z", b"00:00:03.000Z")),
    (WAITS, outcome(0, b'"attempt":0', b'"attempt":1')),
    (DECIDED, outcome(0, b"00:00:02.000Z", b"00:00:03.000Z")),
    (DECIDED, outcome(0, b"00:00:02.000Z", b"tomorrow")),
    (DECIDED, outcome(0, b'"attempt":0', b'"attempt":1')),
    (LATER, outcome(0, b'"attempt":1', b'"attempt":2')),
    (ONCE_MORE, outcome(0, b'"attempt":1', b'"attempt":2')),
    (DECIDED, outcome(0, b'"fingerprint":', b'"fingerprint":1')),
    (DECIDED, outcome(1, b'"fingerprint":', b'"fingerprint":1')),
    (DECIDED, outcome(1, b'"correlationid":"x"', b'"correlationid":"z"')),
    (CANCELLED, outcome(1, b'"target":{"id":"x"', b'"target":{"id":"z"')),
    (CANCELLED, outcome(1, b'"offset":0}', b'"offset":1}')),
    (CANCELLED, outcome(1, b'"target"', b'"aim"')),
    (RELEASED, outcome(1, b'"target":{"id":"x"', b'"target":{"id":"z"')),
    (RELEASED, outcome(1, b'"target"', b'"aim"')),
    (RELEASED, outcome(1, b'"causationid":"stop"', b'"causationid":"x"')),
    (AHEAD, outcome(1, b"00:00:02.000Z", b"00:00:03.000Z")),
    (AHEAD, outcome(1, b'"attempt":0', b'"attempt":1')),
    (DECIDED, lambda world: world._replace(rules=STRICT)),  # by an owner that tolerates more
    (DECIDED, command(1, MORE)),
    *((one, command(1, texts)) for one in (SAID, DECIDED) for texts in (DATA, NOT_BEFORE, TRACED)),
]


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(("world", "change"), CHANGES)
def test_planted_change_is_found(world: World, change: Change) -> None:
    changed, found = change(world), sorted(proved(change(world)))
    assert found
    for cut in range(world.position + 1):
        assert sorted(proved_in_pieces(changed, world, cut)) == found


@pytest.mark.parametrize("members", FIELDS[:-3])
def test_altered_entry_is_found_afterwards(members: dict[str, Any]) -> None:
    """The amount 5 becomes 5,000, and is decided. The entry has ended."""
    assert proved(decided_with(**members))


@pytest.mark.parametrize("members", [*FIELDS[:3], {"fingerprint": 5}])
def test_altered_entry_shows_in_its_outcome(members: dict[str, Any]) -> None:
    """Compaction has removed the entry."""
    world = decided_with(**members)
    assert proved(world._replace(topic=()))


@pytest.mark.parametrize("world", [SAID, LATER, TWICE, ONCE_MORE, CANCELLED, CANCELLING, RELEASED, AHEAD])
def test_unchanged_histories_are_silent(world: World) -> None:
    assert proved(world) == proved(world, deleted=1) == []
    assert [proved_in_pieces(world, world, cut) for cut in range(world.position)] == [[]] * world.position


@pytest.mark.parametrize("change", [entry(**one) for one in FIELDS])
def test_deleted_command_hides_no_entry(change: Change) -> None:
    assert proved(change(WAITS), deleted=1)


@pytest.mark.parametrize("texts", [DATA, NOT_BEFORE, NAMED, MORE])
def test_deleted_command_hides_no_repetition(texts: tuple[bytes, bytes]) -> None:
    assert proved(command(1, texts)(DECIDED), deleted=1)
