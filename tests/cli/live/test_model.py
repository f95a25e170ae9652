"""The numbers of `cqrs top`, for two looks."""

from dataclasses import replace

import pytest

from cqrs_cli.cli.live.model import (
    Look,
    PartitionLook,
    Reasons,
    Row,
    View,
    partition_rows,
    summed,
)

QUIET = PartitionLook(100, 100, "a", counts={"accepted": 80, "rejected": 20})


def looks(was: PartitionLook, now: PartitionLook, seconds: float = 2.0) -> Row:
    before = Look(10.0, 0, {("bank", 0): was})
    (row,) = partition_rows(before, Look(10.0 + seconds, 60_000, {("bank", 0): now}))
    return row


def test_rates_are_those_between_looks() -> None:
    now = replace(QUIET, end=140, position=120, counts={"accepted": 90, "rejected": 26, "failed": 4})
    row = looks(QUIET, now)
    assert (row.sent, row.decided, row.refused, row.lag) == (20, 10, 5, 20)


def test_an_old_burst_is_not_a_rate() -> None:
    row = looks(QUIET, QUIET)
    assert (row.sent, row.decided, row.refused) == (0, 0, 0)


def test_the_first_look_has_no_rates() -> None:
    (row,) = partition_rows(None, Look(10.0, 0, {("bank", 0): QUIET}))
    assert (row.sent, row.decided, row.refused, row.lag) == (None, None, None, 0)


def test_a_new_run_counts_from_zero() -> None:
    row = looks(QUIET, replace(QUIET, run="b", counts={"accepted": 6}))
    assert (row.decided, row.owner) == (3, "b")


def test_shrinking_numbers_are_no_rates() -> None:
    """A topic that was made again, or an owner that began its run again."""
    row = looks(QUIET, replace(QUIET, end=3, position=1, counts={"accepted": 1}))
    assert (row.sent, row.decided, row.refused) == (0, 0, 0)


def test_the_oldest_command_has_an_age() -> None:
    waiting = replace(QUIET, end=101, oldest=57_000, latency=1500)
    assert looks(QUIET, waiting)[6:8] == (3.0, 1.5)
    assert looks(QUIET, replace(waiting, position=101)).oldest is None
    assert looks(QUIET, replace(waiting, oldest=61_000, latency=-1))[6:8] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("run", "stopped", "owner"), [("", False, "none"), ("a", False, "a"), ("a", True, "a (stopped)")]
)
def test_owners_are_named(run: str, stopped: bool, owner: str) -> None:
    assert looks(QUIET, replace(QUIET, run=run, stopped=stopped)).owner == owner


def row(aggregate: str, partition: int, lag: int, decided: float | None = None) -> Row:
    return Row(aggregate, partition, None, decided, None, lag, None, None, "a")


def test_sums_add_what_is_known() -> None:
    total = summed([row("bank", 0, 3, 5.0), row("bank", 1, 4), row("bank", 2, 0)._replace(owner="b")])
    assert (total.lag, total.decided, total.sent, total.owner) == (7, 5.0, None, "2 owners")
    assert summed([row("bank", 0, 1)]).owner == "a"
    assert summed([]).owner == "none"


LAGS = {("b", 0): 5, ("a", 1): 0, ("a", 0): 9, ("b", 1): 7}
NOW = Look(1.0, 0, {where: PartitionLook(lag, 0) for where, lag in LAGS.items()})


def order(view: View) -> list[tuple[str, int | None]]:
    return [(one.aggregate, one.partition) for one in view.rows(None, NOW)]


def test_keys_sort_the_rows() -> None:
    assert order(View()) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert order(View().press("l")) == [("a", 0), ("b", 1), ("b", 0), ("a", 1)]
    assert order(View().press("l").press("n")) == order(View())
    assert order(View().press("d")) == order(View())


def test_aggregates_can_be_folded() -> None:
    folded = View().press("a").press("l")
    assert order(folded) == [("b", None), ("a", None)]
    assert order(folded.press("a")) == order(View().press("l"))


def test_other_keys_change_nothing() -> None:
    assert [View().press(key) for key in "xyz\x1b"] == [View()] * 4


def test_pausing_and_quitting_are_keys() -> None:
    assert View().press("p").paused
    assert View().press(" ").press("p") == View()
    assert View().press("q").ended


def test_reasons_are_of_the_last_minute() -> None:
    reasons = Reasons()
    for at, count in ((0.0, 9), (50.0, 2), (70.0, 3)):
        part = replace(QUIET, reasons={"EMPTY": count, "CLOSED": 1})
        reasons.add(Look(at, 0, {("bank", 0): part, ("order", 0): QUIET}))
    assert reasons.most(1) == [("bank", "EMPTY", 5)]
    assert reasons.most(5) == [("bank", "EMPTY", 5), ("bank", "CLOSED", 2)]


def test_processes_are_measured_by_position() -> None:
    """They count nothing; from one run to another nothing is known."""
    where = ("checkout < order", 0)

    def look(at: float, position: int, run: str) -> Look:
        return Look(at, 0, {where: PartitionLook(100, position, run, reacts=True)})

    (row,) = partition_rows(look(0, 10, "r"), look(2, 50, "r"))
    assert (row.decided, row.refused, row.lag, row.owner) == (20, 0, 50, "r")
    (row,) = partition_rows(look(0, 10, "r"), look(2, 50, "s"))
    assert row.decided == 0
