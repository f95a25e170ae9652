import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregates.sensor import (
    MAX_READING,
    MAX_WINDOW,
    Configure,
    Configured,
    Record,
    Recorded,
    Sensor,
    decider,
)
from cqrs_cli.testing import spec

window_of_two = spec(decider).given(Configured(2))


def test_one_reading_is_its_average() -> None:
    spec(decider).when(Record(21.5)).then(Recorded(21.5)).state(Sensor(10, (21.5,), 21.5))


def test_average_moves_with_readings() -> None:
    window_of_two.given(Recorded(1.0), Recorded(2.0)).when(Record(4.0)).state(Sensor(2, (2.0, 4.0), 3.0))


def test_smaller_window_drops_oldest_readings() -> None:
    three_readings = spec(decider).given(Recorded(1.0), Recorded(2.0), Recorded(6.0))
    three_readings.when(Configure(2)).then(Configured(2)).state(Sensor(2, (2.0, 6.0), 4.0))


def test_larger_window_keeps_all_readings() -> None:
    window_of_two.given(Recorded(1.0), Recorded(2.0)).when(Configure(3)).state(Sensor(3, (1.0, 2.0), 1.5))


def test_the_same_window_changes_nothing() -> None:
    window_of_two.when(Configure(2)).unchanged()


@pytest.mark.parametrize("window", [-1, 0, MAX_WINDOW + 1])
def test_the_window_is_bounded(window: int) -> None:
    window_of_two.when(Configure(window)).rejected(code="BAD_WINDOW")


@pytest.mark.parametrize("value", [1e301, -1e301])
def test_overflowing_readings_are_rejected(value: float) -> None:
    window_of_two.when(Record(value)).rejected(code="OUT_OF_RANGE")


def test_average_of_greatest_readings_is_finite() -> None:
    readings = [Recorded(MAX_READING)] * (MAX_WINDOW - 1)
    full_window = spec(decider).given(Configured(MAX_WINDOW), *readings).when(Record(MAX_READING))
    full_window.state(Sensor(MAX_WINDOW, (MAX_READING,) * MAX_WINDOW, MAX_READING))


@given(st.lists(st.floats(-1e6, 1e6), max_size=12), st.integers(1, 5))
def test_readings_never_exceed_the_window(values: list[float], window: int) -> None:
    state = spec(decider).given(Configured(window), *map(Recorded, values)).state
    assert state.readings == tuple(values[-window:])
