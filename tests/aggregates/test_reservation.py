from datetime import UTC, datetime, timedelta

from aggregates.reservation import HELD_FOR, Bought, Buy, Held, Hold, Seat, decider
from cqrs_cli.testing import spec

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOON + HELD_FOR
held = spec(decider).given(Held("ann", LATER))
sold = held.given(Bought("ann"))


def test_seat_is_held_for_a_while() -> None:
    spec(decider).when(Hold("ann"), at=NOON).then(Held("ann", LATER)).state(Seat("ann", LATER))


def test_held_seat_is_refused_to_others() -> None:
    held.when(Hold("bob"), at=LATER - timedelta(seconds=1)).rejected(code="HELD")
    held.when(Buy("bob"), at=NOON).rejected(code="HELD")


def test_seat_is_free_when_time_is_up() -> None:
    held.when(Hold("bob"), at=LATER).then(Held("bob", LATER + HELD_FOR))
    held.when(Buy("ann"), at=LATER).rejected(code="NOT_HELD")


def test_holder_buys_in_time() -> None:
    held.when(Buy("ann"), at=NOON).then(Bought("ann")).when(Buy("ann"), at=LATER).unchanged()


def test_holding_again_prolongs() -> None:
    held.when(Hold("ann"), at=NOON + timedelta(minutes=5)).then(Held("ann", LATER + timedelta(minutes=5)))


def test_sold_seat_stays_sold() -> None:
    sold.when(Hold("bob"), at=LATER + timedelta(days=1)).rejected(code="SOLD")
    sold.when(Hold("ann"), at=NOON).rejected(code="SOLD")
    sold.when(Buy("bob"), at=NOON).rejected(code="SOLD")


def test_nobody_buys_what_is_not_held() -> None:
    spec(decider).when(Buy("ann"), at=NOON).rejected(code="NOT_HELD")
