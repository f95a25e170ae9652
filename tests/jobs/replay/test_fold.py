"""Folding a partition from its first event: the results, and the refused logs."""

import msgspec
import pytest

from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.digest import aggregate_digest
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL, ReplayFold, ReplayFoldError, Total
from cqrs_cli.scans.replay.parts import are_in_part, part_of
from tests.support.eventlog import NOON, counter_event

AGGREGATE = Aggregate.of("counter", counter.decider)
ONE_O_CLOCK = "2026-11-21T13:00:00.000Z"


REQUIRED = (
    "id",
    "type",
    "subject",
    "time",
    "causationid",
    "aggregateversion",
    "eventindex",
    "eventcount",
)


def event_without(member: str) -> bytes:
    """Return an event without one of its members."""
    event = msgspec.json.decode(counter_event("a", 1))
    return msgspec.json.encode({name: value for name, value in event.items() if name != member})


def fold_events(*values: bytes | None, until: str | None = None) -> ReplayFold:
    replay_fold = ReplayFold(AGGREGATE, until)
    replay_fold.fold(values, range(len(values)).__getitem__)
    return replay_fold


def test_row_follows_the_last_event() -> None:
    replay_fold = fold_events(
        counter_event("a", 1, 2), counter_event("b", 1), counter_event("a", 2, 3, time=ONE_O_CLOCK)
    )
    rows = list(replay_fold.rows())
    assert [row[:4] for row in rows] == [
        ("a", 2, ONE_O_CLOCK, b'{"value":5}'),
        ("b", 1, NOON, b'{"value":1}'),
    ]
    assert [AGGREGATE.encode_state(row.decoded) for row in rows] == [row.state for row in rows]


def test_total_counts_and_sums_digests() -> None:
    digest_sum = aggregate_digest("a", 2, b'{"value":2}') + aggregate_digest("b", 1, b'{"value":1}')
    assert fold_events(counter_event("a", 1), counter_event("a", 2), counter_event("b", 1)).total() == Total(
        2, 3, digest_sum % 2**256
    )


def test_totals_of_parts_add_up() -> None:
    parts = fold_events(counter_event("a", 1)).total().plus(fold_events(counter_event("b", 1)).total())
    assert parts.plus(EMPTY_TOTAL) == fold_events(counter_event("b", 1), counter_event("a", 1)).total()


def test_fold_continues_where_it_stopped() -> None:
    replay_fold = fold_events(counter_event("a", 1))
    replay_fold.fold([counter_event("a", 2)], [7].__getitem__)
    assert replay_fold.total().events == 2


def test_until_drops_later_versions() -> None:
    replay_fold = fold_events(
        counter_event("a", 1),
        counter_event("a", 2, time=ONE_O_CLOCK),
        counter_event("b", 1, time=ONE_O_CLOCK),
        until=NOON,
    )
    assert [row[:4] for row in replay_fold.rows()] == [("a", 1, NOON, b'{"value":1}')]
    assert replay_fold.total()[:2] == (1, 1)


def test_until_keeps_the_last_earlier_version() -> None:
    replay_fold = fold_events(
        counter_event("a", 1), counter_event("a", 2, time=ONE_O_CLOCK), counter_event("a", 3), until=NOON
    )
    assert next(replay_fold.rows()).version == 3


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            [counter_event("a", 1), counter_event("a", 3)],
            "offset 1: 'a' is at version 1, but its next event has version 3",
        ),
        (
            [counter_event("a", 2)],
            "offset 0: 'a' is at version 0, but its next event has version 2: events are missing",
        ),
        (
            [counter_event("a", 1), counter_event("a", 1)],
            "offset 1: 'a' is at version 1 and has another event of version 1",
        ),
        ([counter_event("a", 0)], "offset 0: 'a' is at version 0 and has another event of version 0"),
        ([counter_event("a", 1, type="Exploded")], "offset 0: the code knows no event counter.Exploded"),
        (
            [counter_event("a", 1, type="WasReset")],
            "offset 0: counter.WasReset 0/1/0 does not match its class",
        ),
        ([b"{"], "offset 0: "),
        ([b"[" * 100_000], "offset 0: "),
        ([None], "offset 0: a null value is not an event"),
        *(([event_without(name)], f"offset 0: Object missing required field `{name}`") for name in REQUIRED),
    ],
)
def test_contradiction_has_its_offset(values: list[bytes | None], reason: str) -> None:
    with pytest.raises(ReplayFoldError) as raised:
        fold_events(*values)
    assert str(raised.value).startswith(reason)
    assert raised.value.offset == len(values) - 1


def test_another_aggregates_key_is_refused() -> None:
    """A part of a partition has the aggregates in a range of key hashes. Only a part checks the keys of its events."""
    parts = [part_of(number, 2) for number in range(2)]
    (other_part,) = (part for part in parts if are_in_part([b"a"], part) == [False])
    with pytest.raises(ReplayFoldError, match="offset 0: the event of 'a' has the key of another aggregate"):
        ReplayFold(AGGREGATE, part=other_part).fold([counter_event("a", 1)], [0].__getitem__)
