from aggregates.counter import Counter, Increment, Incremented, Reset, WasReset, decider
from cqrs_cli.testing import spec

counter_at_five = spec(decider).given(Incremented(5))


def test_counter_counts_by_one() -> None:
    counter_at_five.when(Increment()).then(Incremented(1)).state(Counter(6))


def test_negative_numbers_count_down() -> None:
    counter_at_five.when(Increment(-7)).then(Incremented(-7)).state(Counter(-2))


def test_increment_by_zero_changes_nothing() -> None:
    counter_at_five.when(Increment(0)).unchanged()


def test_a_reset_goes_to_its_value() -> None:
    counter_at_five.when(Reset(40)).then(WasReset(40)).state(Counter(40))


def test_same_reset_changes_nothing() -> None:
    counter_at_five.when(Reset(5)).unchanged()
    spec(decider).when(Reset()).unchanged()


def test_counting_continues_after_a_reset() -> None:
    counter_at_five.when(Reset()).then(WasReset(0)).when(Increment(2)).state(Counter(2))
