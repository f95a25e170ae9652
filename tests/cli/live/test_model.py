"""The keys of `cqrs top`, and their effects."""

from msgspec.structs import replace

from cqrs_cli.cli.live.model import DisplayOptions, RecentReasons
from cqrs_cli.status.columns import COLUMNS
from tests.support.statuses import decided_partition, status_snapshot, subscribed_partition

LAGS = {("b", 0): 5, ("a", 1): 0, ("a", 0): 9, ("b", 1): 7}
PARTITIONS = [decided_partition(number, name, lag=lag) for (name, number), lag in LAGS.items()]


def row_labels(options: DisplayOptions) -> list[str]:
    return [row.label for row in options.rows(PARTITIONS, COLUMNS)]


def test_keys_sort_the_rows() -> None:
    assert row_labels(DisplayOptions()) == ["a 0", "a 1", "b 0", "b 1"]
    assert row_labels(DisplayOptions().press("l")) == ["a 0", "b 1", "b 0", "a 1"]
    assert row_labels(DisplayOptions().press("l").press("n")) == row_labels(DisplayOptions())
    assert row_labels(DisplayOptions().press("d")) == row_labels(DisplayOptions())


def test_every_sort_has_its_key() -> None:
    keys = {key: DisplayOptions().press(key).sort for key in "nsdrlo"}
    assert list(keys.values()) == ["name", "sent", "decided", "rejected", "lag", "oldest"]


def test_aggregates_can_be_folded() -> None:
    grouped_by_lag = DisplayOptions().press("a").press("l")
    assert row_labels(grouped_by_lag) == ["b", "a"]
    assert row_labels(grouped_by_lag.press("a")) == row_labels(DisplayOptions().press("l"))


def test_other_keys_change_nothing() -> None:
    assert [DisplayOptions().press(key) for key in "xyz\x1b"] == [DisplayOptions()] * 4


def test_pausing_and_quitting_are_keys() -> None:
    assert DisplayOptions().press("p").is_paused
    assert DisplayOptions().press(" ").press("p") == DisplayOptions()
    assert DisplayOptions().press("q").is_quitting


def test_reasons_are_counted_for_a_minute() -> None:
    reasons = RecentReasons()
    for time, count in ((0.0, 9), (50.0, 2), (70.0, 3)):
        status = decided_partition(polled_at=time, reasons={"EMPTY": count, "CLOSED": 1})
        reasons.add_snapshot(status_snapshot(status, replace(subscribed_partition(), polled_at=time)))
    assert reasons.most_frequent(1) == [("bank", "EMPTY", 5)]
    assert reasons.most_frequent(5) == [("bank", "EMPTY", 5), ("bank", "CLOSED", 2)]
