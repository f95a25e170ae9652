"""Each change of a record about a deferred command is found, whatever the record is."""

from collections.abc import Callable
from dataclasses import replace as replace_dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from tests.core.deferral.world import RULES, Shard, World
from tests.proof.deferral_histories import (
    CANCELLING,
    DECIDED,
    DEFERRED_BY_DECIDE,
    DEFERRED_TWICE,
    RESUBMITTED,
    WAITING,
    simulate,
    simulate_from,
    violations_in,
    violations_in_pieces,
)

Change = Callable[[World], World]


STRICT_RULES = replace_dataclass(RULES, limits=RULES.limits._replace(clock_tolerance=0))
RESUBMITTED_EARLY = simulate_from(
    World(("x",), (), rules=STRICT_RULES)
)  # resubmitted too early, and once more
DEFERRED_ONCE_MORE = simulate("late", "y")
CANCELLED = simulate("x", "cancel")
RELEASED = simulate("x", "release")

OTHER_DATA = (b'"after": 0', b'"after": 5')
OTHER_TIME = (b"00:00:02Z", b"00:00:03Z")
OTHER_ID = (b'"id":"x"', b'"id":"z"')
OTHER_SUBJECT = (b'"subject":"a"', b'"subject":"b"')
WITH_CORRELATION = (b'"source"', b'"correlationid":"c","source"')
WITH_TRACE = (b'"source"', b'"traceparent":"00-1","source"')


def entry(number: int = -1, **members: Any) -> Change:
    """Change the members of an entry. `command` replaces a text in its command."""

    def change(world: World) -> World:
        topic = list(world.topic)
        record = topic[number]
        assert record is not None and record[1] is not None
        topic[number] = (
            record[0],
            with_members(read_deferral(record[0].encode(), record[1]), members).value(),
        )
        return world._replace(topic=tuple(topic))

    return change


def with_members(entry: Deferral, members: dict[str, Any]) -> Deferral:
    old, new = members.get("command", (b"", b""))
    assert old in entry.command
    return replace(entry, **{**members, "command": entry.command.replace(old, new)})


def outcome(number: int, old: bytes, new: bytes) -> Change:
    return lambda world: world._replace(outcomes=with_text(world.outcomes, number, old, new))


def command(number: int, texts: tuple[bytes, bytes]) -> Change:
    return lambda world: world._replace(commands=with_text(world.commands, number, *texts))


def with_text(
    log: tuple[tuple[bytes, int], ...], number: int, old: bytes, new: bytes
) -> tuple[tuple[bytes, int], ...]:
    value, timestamp = log[number]
    assert old in value, value
    return (*log[:number], (value.replace(old, new), timestamp), *log[number + 1 :])


def decided_with(**members: Any) -> World:
    """Let an owner read the altered entry, resubmit it, and decide it."""
    world = entry(**members)(WAITING)
    shard = Shard(
        tuple(with_members(deferral, members) for deferral in world.shard.entries), *world.shard[1:]
    )
    return simulate_from(world._replace(shard=shard))


#: Changes of a waiting entry, whose command may have been deleted.
FIELDS: list[dict[str, Any]] = [
    {"command": OTHER_DATA},
    {"command": OTHER_ID},
    {"command": OTHER_SUBJECT},
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
    {"resubmitted_offset": 7, "resubmitted_topic_id": "T"},
]
CHANGES: list[tuple[World, Change]] = [
    *((WAITING, entry(**members)) for members in FIELDS),
    *((RESUBMITTED, entry(**members)) for members in FIELDS[:-1]),
    *((DECIDED, entry(0, **members)) for members in FIELDS[:5]),
    *(
        (DEFERRED_BY_DECIDE, entry(**members))
        for members in ({"due": 999}, {"attempt": 0}, {"attempt": 2}, {"cancelled": True})
    ),
    *((CANCELLING, entry(**members)) for members in ({"cancelled": False}, {"due": 2000})),
    (WAITING, outcome(0, b"00:00:02.000Z", b"00:00:03.000Z")),
    (WAITING, outcome(0, b'"attempt":0', b'"attempt":1')),
    (DECIDED, outcome(0, b"00:00:02.000Z", b"00:00:03.000Z")),
    (DECIDED, outcome(0, b"00:00:02.000Z", b"tomorrow")),
    (DECIDED, outcome(0, b'"attempt":0', b'"attempt":1')),
    (DEFERRED_BY_DECIDE, outcome(0, b'"attempt":1', b'"attempt":2')),
    (DEFERRED_ONCE_MORE, outcome(0, b'"attempt":1', b'"attempt":2')),
    (DECIDED, outcome(0, b'"fingerprint":', b'"fingerprint":1')),
    (DECIDED, outcome(1, b'"fingerprint":', b'"fingerprint":1')),
    (DECIDED, outcome(1, b'"correlationid":"x"', b'"correlationid":"z"')),
    (CANCELLED, outcome(1, b'"target":{"id":"x"', b'"target":{"id":"z"')),
    (CANCELLED, outcome(1, b'"offset":0}', b'"offset":1}')),
    (CANCELLED, outcome(1, b'"target"', b'"aim"')),
    (RELEASED, outcome(1, b'"target":{"id":"x"', b'"target":{"id":"z"')),
    (RELEASED, outcome(1, b'"target"', b'"aim"')),
    (RELEASED, outcome(1, b'"causationid":"stop"', b'"causationid":"x"')),
    (RESUBMITTED_EARLY, outcome(1, b"00:00:02.000Z", b"00:00:03.000Z")),
    (RESUBMITTED_EARLY, outcome(1, b'"attempt":0', b'"attempt":1')),
    (DECIDED, lambda world: world._replace(rules=STRICT_RULES)),  # by an owner that tolerates more
    (DECIDED, command(1, WITH_CORRELATION)),
    *(
        (world, command(1, texts))
        for world in (RESUBMITTED, DECIDED)
        for texts in (OTHER_DATA, OTHER_TIME, WITH_TRACE)
    ),
]


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(("world", "change"), CHANGES)
def test_planted_change_is_found(world: World, change: Change) -> None:
    changed_world, violations = change(world), sorted(violations_in(change(world)))
    assert violations
    for cut in range(world.position + 1):
        assert sorted(violations_in_pieces(changed_world, world, cut)) == violations


@pytest.mark.parametrize("members", FIELDS[:-3])
def test_altered_entry_is_found_afterwards(members: dict[str, Any]) -> None:
    """The amount 5 becomes 5,000, and is decided. The entry has ended."""
    assert violations_in(decided_with(**members))


@pytest.mark.parametrize("members", [*FIELDS[:3], {"fingerprint": 5}])
def test_altered_entry_shows_in_its_outcome(members: dict[str, Any]) -> None:
    """Compaction has removed the entry."""
    world = decided_with(**members)
    assert violations_in(world._replace(topic=()))


@pytest.mark.parametrize(
    "world",
    [
        RESUBMITTED,
        DEFERRED_BY_DECIDE,
        DEFERRED_TWICE,
        DEFERRED_ONCE_MORE,
        CANCELLED,
        CANCELLING,
        RELEASED,
        RESUBMITTED_EARLY,
    ],
)
def test_unchanged_histories_are_silent(world: World) -> None:
    assert violations_in(world) == violations_in(world, deleted=1) == []
    assert [violations_in_pieces(world, world, cut) for cut in range(world.position)] == [[]] * world.position


@pytest.mark.parametrize("change", [entry(**members) for members in FIELDS])
def test_deleted_command_hides_no_entry(change: Change) -> None:
    assert violations_in(change(WAITING), deleted=1)


@pytest.mark.parametrize("texts", [OTHER_DATA, OTHER_TIME, OTHER_ID, WITH_CORRELATION])
def test_deleted_command_hides_no_repetition(texts: tuple[bytes, bytes]) -> None:
    assert violations_in(command(1, texts)(DECIDED), deleted=1)
