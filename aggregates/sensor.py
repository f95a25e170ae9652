"""A sensor with the moving average of its last readings. The state stays small for any number of readings.

    cqrs send sensor boiler Configure window:=3
    cqrs send sensor boiler Record value:=21.5

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from math import fsum
from typing import assert_never

import cqrs_cli as cqrs

MAX_WINDOW = 1000  # the maximal number of readings in the state
MAX_READING = 1e300  # so that the sum of a whole window is still a finite number


class Configure(cqrs.Command):
    """Average over this many readings from now on; older readings are dropped."""

    window: int


class Record(cqrs.Command):
    value: float


class Configured(cqrs.Event):
    window: int


class Recorded(cqrs.Event):
    value: float


class Sensor(cqrs.State):
    window: int = 10
    readings: tuple[float, ...] = ()  # oldest first, at most `window`
    average: float | None = None  # of the readings


def decide(command: Configure | Record, sensor: Sensor) -> Iterator[Configured | Recorded]:
    match command:
        case Configure(window) if not 1 <= window <= MAX_WINDOW:
            raise cqrs.Rejected(f"the window must be 1 to {MAX_WINDOW}, not {window}", code="BAD_WINDOW")
        case Configure(window):
            if window != sensor.window:
                yield Configured(window)
        case Record(value) if abs(value) > MAX_READING:
            raise cqrs.Rejected(f"no sensor reads {value}", code="OUT_OF_RANGE")
        case Record(value):
            yield Recorded(value)
        case _:
            assert_never(command)


def evolve(sensor: Sensor, event: Configured | Recorded) -> Sensor:
    match event:
        case Configured(window):
            return _averaged(sensor.readings[-window:], window)
        case Recorded(value):
            return _averaged((*sensor.readings, value)[-sensor.window :], sensor.window)


def _averaged(readings: tuple[float, ...], window: int) -> Sensor:
    return Sensor(window, readings, fsum(readings) / len(readings) if readings else None)


decider = cqrs.Decider(decide, evolve, initial=Sensor())
