"""The screen of `cqrs top`."""

import io

import pytest
from rich.console import Console

from cqrs_cli.cli.live.model import DisplayOptions
from cqrs_cli.cli.live.screen import render_screen
from cqrs_cli.status.partition import PartitionOwner, Rates
from cqrs_cli.status.rates import StatusSnapshot
from tests.support.statuses import decided_partition, status_snapshot, subscribed_partition

BUSY_PARTITION = decided_partition(
    3, end=10, position=4, lag=6, oldest_age_ms=2000, latency_ms=12, rates=Rates(0, 1000, 0, 250, 4, 3)
)
SNAPSHOT = status_snapshot(
    *(
        BUSY_PARTITION if number == 3 else decided_partition(number, rates=Rates(0, 0, 0))
        for number in range(20)
    )
)
DEFAULTS = DisplayOptions()


def drawn_lines(
    snapshot: StatusSnapshot,
    options: DisplayOptions = DEFAULTS,
    height: int = 40,
    error: str = "",
    width: int = 120,
) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(render_screen(snapshot, options, [("bank", "EMPTY", 1200)], error, width, height))
    return captured.get().splitlines()


def test_a_row_has_its_numbers() -> None:
    lines = drawn_lines(SNAPSHOT)
    (line,) = (line.split() for line in lines if line.startswith("bank 3"))
    transactions = ["250", "4.0", "3", "ms"]
    assert line == ["bank", "3", "0", "1,000", "0", "6", "2.0", "s", "12", "ms", *transactions, "a"]
    (total,) = (line.split() for line in lines if line.startswith("total"))
    assert total == ["total", "0", "1,000", "0", "6", "2.0", "s", "12", "ms", *transactions, "a"]
    assert "rejected or failed in the last minute: bank EMPTY 1,200" in "".join(lines)


def test_the_screen_is_never_overfull() -> None:
    screen = status_snapshot(*(decided_partition(number, wait_reason="n") for number in range(20)))
    for height in (8, 12, 20, 40):
        assert len(drawn_lines(screen, height=height)) <= max(height, 12)
    assert any("and 14 more: a shows aggregates" in line for line in drawn_lines(SNAPSHOT, height=13))


def test_wait_reasons_and_errors_are_shown() -> None:
    lines = drawn_lines(
        status_snapshot(decided_partition(3, wait_reason="command 7 is on\x1b trial")), error="no answer"
    )
    assert "no answer; still trying" in lines
    assert "bank 3: it waits: command 7 is on\\x1b trial" in lines


def test_the_header_shows_the_chosen_options() -> None:
    assert "sorted by lag  paused" in drawn_lines(SNAPSHOT, DisplayOptions("lag", is_paused=True))[0]


#: Rows with realistic widths: the run's name has a time and a number.
WIDE_ROWS = [
    decided_partition(
        n,
        "bank_account",
        owner=PartitionOwner("swift-otter-20261124-082538"),
        rates=Rates(120, 91_000, 12),
        oldest_age_ms=9000,
    )
    for n in range(3)
]


@pytest.mark.parametrize("width", [60, 70, 80])
def test_narrow_screens_omit_columns(width: int) -> None:
    """A column without room is omitted: numbers are never cut."""
    wait_reason = "the payload store does not answer, and this long reason must be shown completely"
    process_status = subscribed_partition(lag=3, rates=Rates(3, 1, 0), wait_reason=wait_reason)
    lines = drawn_lines(status_snapshot(*WIDE_ROWS, process_status), width=width)
    assert max(map(len, lines)) <= width
    header = next(line for line in lines if line.startswith("partition"))
    assert header.split()[:1] + header.split()[-1:] == ["partition", "owner"]
    assert "decided/s" in header and "lag" in header and "latency" not in header
    rows = [line for line in lines if line.startswith("bank")]
    assert ["91,000" in line and "swift-otter" in line for line in rows] == [True] * 3
    assert wait_reason in " ".join(" ".join(lines).split())
    assert lines[0].endswith("sorted by name") and lines[-1].startswith("q quit")


def test_wide_screens_show_every_column() -> None:
    header = next(
        line for line in drawn_lines(status_snapshot(*WIDE_ROWS), width=140) if line.startswith("partition")
    )
    assert header.split() == [
        "partition",
        "sent/s",
        "decided/s",
        "rejected/s",
        "lag",
        "oldest",
        "latency",
        "tx/s",
        "per",
        "tx",
        "commit",
        "owner",
    ]
