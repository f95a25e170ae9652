from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from aggregates.order import Place, Placed, Ship
from aggregates.payment import Paid, Request
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.react import MAX_SENT, InvalidReaction, call_react, subscribed_events
from cqrs_cli.core.recorded import Recorded
from tests.core.personal.customer import Registered

AT = Recorded(Placed("ann"), "o-1", 1, datetime(2026, 5, 1, tzinfo=UTC), "0/7/0", "c-1", "c-1", 0, 8)


def process_returning(value: object) -> Process:
    """Return a process manager that returns this value for each event."""

    def react(event: Placed, at: Recorded[Any]) -> Any:
        return value

    return Process(react)


def request_payment(event: Placed | Paid, at: Recorded[Placed]) -> Iterator[Send]:
    yield Send("payment", at.aggregate_id, Request("ann"))


def test_annotation_names_the_events() -> None:
    assert subscribed_events(Process(request_payment)) == [Placed, Paid]


def without_types(event, at):  # type: ignore[no-untyped-def]
    return []


def subscribe_to_command(event: Place, at: Recorded[Any]) -> list[Send]:
    return []


def with_number(event: Placed, at: int) -> list[Send]:
    return []


def without_record(event: Placed) -> list[Send]:
    return []


def with_untyped_record(event: Placed, at) -> list[Send]:  # type: ignore[no-untyped-def]
    return []


def subscribe_to_list(event: list[Placed], at: Recorded[Any]) -> list[Send]:
    return []


async def async_react(event: Placed, at: Recorded[Any]) -> list[Send]:
    return []


async def async_generator(event: Placed, at: Recorded[Any]) -> AsyncIterator[Send]:
    yield Send("order", "o-1", Ship())


@pytest.mark.parametrize(
    ("react", "message"),
    [
        (without_types, "annotate the events to which react subscribes"),
        (subscribe_to_command, "found Place"),
        (with_number, r"with cqrs\.Recorded, found int"),
        (without_record, "react must be a function"),
        (with_untyped_record, r"with cqrs\.Recorded, found no annotation$"),
        (subscribe_to_list, r"found list\[aggregates\.order\.Placed\]$"),
        (async_react, "with `def`"),
        (async_generator, "with `def`"),
    ],
)
def test_wrong_annotations_are_explained(react: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        subscribed_events(Process(react))


def test_commands_come_in_order() -> None:
    sends = [Send("order", f"o-{number}", Ship()) for number in range(3)]
    assert call_react(process_returning(iter(sends)), AT) == tuple(sends)
    assert call_react(process_returning([]), AT) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "not an iterable of cqrs.Send"),
        (Send("order", "o-1", Ship()), "not an iterable of cqrs.Send"),
        ([Ship()], r"returned Ship\(\), not a cqrs.Send"),
        ([Send("order", "o-1", Placed("ann"))], "is not a command"),  # type: ignore[arg-type]
        ([Send("order", 7, Ship())], "aggregate and aggregate_id must be text"),  # type: ignore[arg-type]
        ([Send("order", "o-1", Ship(), expect="+7")], "expect must be a version, .* found '\\+7'"),
        ([Send("order", "o-1", Ship(), expect=True)], "expect must be a version, .* found True"),
        ([Send("order", "o-1", Ship(), expires=3)], "expires must be a timedelta"),  # type: ignore[arg-type]
    ],
)
def test_other_values_are_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidReaction, match=message):
        call_react(process_returning(value), AT)


@pytest.mark.parametrize("expect", [None, 0, 7, "none", "exists", ">=3"])
def test_expectations_are_passed_on(expect: int | str | None) -> None:
    send = Send("order", "o-1", Ship(), expect=expect, expires=timedelta(days=1))
    assert call_react(process_returning([send]), AT) == (send,)


def test_react_gets_event_and_record() -> None:
    def react(event: Placed, at: Recorded[Any]) -> list[Send]:
        return [Send("order", f"{event.customer} {at.aggregate_id}", Ship())]

    assert [send.aggregate_id for send in call_react(Process(react), AT)] == ["ann o-1"]


def test_endless_reaction_is_cut_short() -> None:
    """The generator of commands does not end."""
    numbers = count()
    with pytest.raises(InvalidReaction):
        call_react(process_returning(Send("order", f"o-{number}", Ship()) for number in numbers), AT)
    assert next(numbers) == MAX_SENT + 1


def test_commands_have_a_limit() -> None:
    sends = [Send("order", "o-1", Ship())] * (MAX_SENT + 1)
    assert len(call_react(process_returning(sends[1:]), AT)) == MAX_SENT
    with pytest.raises(InvalidReaction, match="more than 10,000 commands for one event"):
        call_react(process_returning(sends), AT)


@pytest.mark.parametrize("moment", [3, "2026-11-21T01:02:03Z", datetime(2026, 11, 21)])
def test_due_time_must_be_a_datetime(moment: Any) -> None:
    with pytest.raises(InvalidReaction, match="not_before must be an aware datetime"):
        call_react(process_returning([Send("order", "o-1", Ship(), not_before=moment)]), AT)


@pytest.mark.parametrize("moment", [None, timedelta(days=3), datetime(2026, 11, 21, tzinfo=UTC)])
def test_due_times_are_passed_on(moment: Any) -> None:
    send = Send("order", "o-1", Ship(), not_before=moment)
    assert call_react(process_returning([send]), AT) == (send,)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Ann", "react returned str, not an iterable of cqrs.Send"),
        (["Ann"], "react returned str, not a cqrs.Send"),
        ([Send("order", "o-1", Registered("Ann", "a@b", "free"))], "Registered is not a command"),  # type: ignore[arg-type]
        ([Send("order", ("Ann",), Ship())], "aggregate and aggregate_id must be text, found tuple"),  # type: ignore[arg-type]
        ([Send("order", "o-1", Ship(), expires="Ann")], "expires must be a timedelta .* found str"),  # type: ignore[arg-type]
        ([Send("order", "o-1", Ship(), not_before="Ann")], "found str"),  # type: ignore[arg-type]
        ([Send("order", "o-1", Ship(), expect="Ann")], "expect must be .* found str"),
    ],
)
def test_personal_events_show_no_values(value: object, message: str) -> None:
    """Any value that `react` gives for an event with personal fields may contain a personal value."""
    event = Registered("Ann", "ann@home", "free")
    at = Recorded(event, "c-1", 1, datetime(2026, 5, 1, tzinfo=UTC), "0/7/0", "c", "c", 0, 8)
    with pytest.raises(InvalidReaction, match=message) as raised:
        call_react(process_returning(value), at)
    assert "Ann" not in str(raised.value)
