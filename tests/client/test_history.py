import msgspec
import pytest

from cqrs_cli import registry
from cqrs_cli.client.aggregate_logs import EventRange
from cqrs_cli.client.history import AggregateHistory, fold_history, parse_at
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError, UsageError
from tests.support import ROOT

COUNTER = registry.load("counter", "aggregates", ROOT)
RANGE = EventRange("counter.events", 3, 0, 100)


def event(version: int, time: str = "", name: str = "Incremented") -> tuple[EventRange, Record]:
    """Return an event record. Its time follows from its version unless given."""
    value = {
        "id": f"3/{version}/0",
        "type": f"counter.{name}",
        "subject": "c",
        "time": time or f"2026-01-01T00:00:0{version}.000Z",
        "causationid": f"command-{version}",
        "aggregateversion": version,
        "eventindex": 0,
        "eventcount": 1,
        "data": {"by": version},
    }
    return RANGE, Record(version, 0, b"c", msgspec.json.encode(value))


def fold_events(at: str | None, *events: tuple[EventRange, Record]) -> AggregateHistory:
    return fold_history(COUNTER, events, parse_at(at))


def test_events_are_folded_in_order() -> None:
    history = fold_events(None, event(1), event(2), event(3))
    assert (history.version, history.time) == (3, "2026-01-01T00:00:03.000Z")
    assert [e.causationid for e in history.events] == ["command-1", "command-2", "command-3"]


def test_unknown_aggregates_have_initial_state() -> None:
    assert fold_events(None) == AggregateHistory(0, COUNTER.decider.initial, None, [])


def test_version_includes_earlier_events() -> None:
    history = fold_events("2", event(1), event(2), event(3))
    assert (history.version, len(history.events)) == (2, 2)


def test_time_includes_earlier_versions() -> None:
    events = event(1), event(2, "2026-01-01T00:00:09.000Z"), event(3, "2026-01-01T00:00:05.000Z")
    assert fold_events("2026-01-01T00:00:06Z", *events).version == 3
    assert fold_events("2026-01-01T00:00:04.999Z", *events).version == 1
    assert fold_events("2026-01-01T01:00:01+01:00", *events).version == 1
    assert fold_events("2025-01-01T00:00:00Z", *events).version == 0


def test_repeated_events_count_once() -> None:
    assert fold_events(None, event(1), event(1), event(2)).version == 2


@pytest.mark.parametrize(
    "events",
    [[event(1), event(3)], [event(2)], [event(1, name="Unknown")], [(RANGE, Record(9, 0, b"c", b"{}"))]],
)
def test_errors_name_the_offset(events: list[tuple[EventRange, Record]]) -> None:
    with pytest.raises(
        ContradictionError,
        match=r"counter\.events partition 3 offset \d: .*cqrs tail counter events --partition 3 --from \d -n 1",
    ):
        fold_events(None, *events)


def test_invalid_position_is_rejected() -> None:
    with pytest.raises(UsageError, match="--at: not a time: 'yesterday'"):
        parse_at("yesterday")


def test_version_of_many_digits_is_rejected() -> None:
    with pytest.raises(UsageError, match="no aggregate has a version of 5000 digits"):
        parse_at("7" * 5000)
