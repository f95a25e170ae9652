"""A seat that can be held for 15 minutes. Then it is free again, unless it was bought: a rule about time.

    cqrs send reservation seat-12 Hold guest=ann
    cqrs send reservation seat-12 Buy guest=ann

`decide` reads no clock. `at.time` is the broker's timestamp of the command, so repeated decisions are equal.

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import assert_never

import cqrs_cli as cqrs

HELD_FOR = timedelta(minutes=15)


class Hold(cqrs.Command):
    """Hold the seat. If the guest holds it already, the 15 minutes start again."""

    guest: str


class Buy(cqrs.Command):
    """Buy the seat. Only the guest who holds it can buy it."""

    guest: str


class Held(cqrs.Event):
    guest: str
    until: datetime


class Bought(cqrs.Event):
    guest: str


class Seat(cqrs.State):
    guest: str | None = None
    until: datetime | None = None
    sold: bool = False

    def is_held(self, now: datetime) -> bool:
        return self.until is not None and now < self.until


def decide(command: Hold | Buy, seat: Seat, at: cqrs.Context) -> Iterator[Held | Bought]:
    match command:
        case Buy(guest) if seat.sold and guest == seat.guest:
            return  # done already
        case _ if seat.sold:
            raise cqrs.Rejected("the seat is sold", code="SOLD")
        case Hold(guest) | Buy(guest) if seat.is_held(at.time) and guest != seat.guest:
            raise cqrs.Rejected(f"the seat is held until {seat.until}", code="HELD")
        case Hold(guest):
            yield Held(guest, until=at.time + HELD_FOR)
        case Buy(guest) if seat.is_held(at.time):
            yield Bought(guest)
        case Buy():
            raise cqrs.Rejected("hold the seat first", code="NOT_HELD")
        case _:
            assert_never(command)


def evolve(seat: Seat, event: Held | Bought) -> Seat:
    match event:
        case Held(guest, until):
            return cqrs.replace(seat, guest=guest, until=until)
        case Bought(guest):
            return Seat(guest=guest, sold=True)


decider = cqrs.Decider(decide, evolve, initial=Seat())
