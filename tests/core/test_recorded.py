from datetime import UTC, datetime, timedelta

import pytest

from cqrs_cli import registry
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.timestamps import parse_utc
from cqrs_cli.core.recorded import Recorded, read_recorded_event
from tests.support import ROOT
from tests.support.eventlog import counter_event

COUNTER = registry.load("counter", "aggregates", ROOT)
INCREMENTED = COUNTER.events["counter.Incremented"]


def test_records_become_events() -> None:
    assert read_recorded_event(COUNTER, counter_event("a", 7, 3), "counter.events", 2, 40) == Recorded(
        event=INCREMENTED(3),
        aggregate_id="a",
        version=7,
        time=datetime(2026, 11, 21, 12, tzinfo=UTC),
        id="0/7/0",
        causation_id="c",
        correlation_id="c",
        partition=2,
        offset=40,
        topic="counter.events",
    )


def test_times_are_aware_in_utc() -> None:
    moment = parse_utc("2026-11-21T14:00:00.500+02:00")
    assert (moment.utcoffset(), moment.hour, moment.microsecond) == (timedelta(0), 12, 500_000)
    with pytest.raises(ValueError, match="with an offset"):
        parse_utc("2026-11-21T14:00:00")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a null value is not an event"),
        (b"{}", "missing required field"),
        (counter_event("a", 1, type="Doubled"), "the code knows no event counter.Doubled"),
        (counter_event("a", 1, by="x"), "does not match its class"),  # type: ignore[arg-type]
        (counter_event("a", 1, time="noon"), "Invalid isoformat string"),
    ],
)
def test_other_records_are_refused(value: bytes | None, message: str) -> None:
    with pytest.raises(FoldError, match=message):
        read_recorded_event(COUNTER, value, "counter.events", 0, 0)
