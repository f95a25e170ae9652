from datetime import UTC, datetime, timedelta

from aggregates.reservation import HELD_FOR, Bought, Buy, Held, Hold, Seat, decider
from cqrs_cli.testing import spec

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOLD_END = NOON + HELD_FOR
held_seat = spec(decider).given(Held("ann", HOLD_END))
sold_seat = held_seat.given(Bought("ann"))


def test_seat_is_held_for_a_time() -> None:
    spec(decider).when(Hold("ann"), at=NOON).then(Held("ann", HOLD_END)).state(Seat("ann", HOLD_END))


def test_held_seat_rejects_other_guests() -> None:
    held_seat.when(Hold("bob"), at=HOLD_END - timedelta(seconds=1)).rejected(code="HELD")
    held_seat.when(Buy("bob"), at=NOON).rejected(code="HELD")


def test_seat_is_free_after_the_hold() -> None:
    held_seat.when(Hold("bob"), at=HOLD_END).then(Held("bob", HOLD_END + HELD_FOR))
    held_seat.when(Buy("ann"), at=HOLD_END).rejected(code="NOT_HELD")


def test_holder_buys_the_seat() -> None:
    held_seat.when(Buy("ann"), at=NOON).then(Bought("ann")).when(Buy("ann"), at=HOLD_END).unchanged()


def test_second_hold_extends_the_time() -> None:
    held_seat.when(Hold("ann"), at=NOON + timedelta(minutes=5)).then(
        Held("ann", HOLD_END + timedelta(minutes=5))
    )


def test_sold_seat_stays_sold() -> None:
    sold_seat.when(Hold("bob"), at=HOLD_END + timedelta(days=1)).rejected(code="SOLD")
    sold_seat.when(Hold("ann"), at=NOON).rejected(code="SOLD")
    sold_seat.when(Buy("bob"), at=NOON).rejected(code="SOLD")


def test_seat_without_hold_is_not_sold() -> None:
    spec(decider).when(Buy("ann"), at=NOON).rejected(code="NOT_HELD")
