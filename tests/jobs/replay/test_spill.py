"""A replay whose aggregates do not fit in memory has the same total, and stays within its memory."""

import subprocess
import sys
from contextlib import closing
from itertools import compress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.scans.replay import limit
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL, AggregateRow, ReplayFold, ReplayFoldError, Total
from cqrs_cli.scans.replay.limit import MemoryLimit
from cqrs_cli.scans.replay.parts import WHOLE, are_in_part, part_of
from tests.jobs.replay.limits import MaxAggregates
from tests.support import ROOT
from tests.support.disks import limit_file_size
from tests.support.eventlog import NOON, counter_event

AGGREGATE = Aggregate.of("counter", counter.decider)
ONE_O_CLOCK = "2026-11-21T13:00:00.000Z"

#: (index of the aggregate, whether the event is later than the limit) of each event.
histories = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200)


def events(history: list[tuple[int, bool]]) -> list[bytes]:
    versions: dict[int, int] = {}
    events = []
    for number, is_later in history:
        version = versions[number] = versions.get(number, 0) + 1
        events.append(counter_event(f"a{number}", version, number, time=ONE_O_CLOCK if is_later else NOON))
    return events


def total_and_rows(
    values: list[bytes],
    max_aggregates: int | None,
    until: str | None = None,
    part: range = WHOLE,
    batch: int = 7,
) -> tuple[Total, list[AggregateRow]]:
    with closing(
        ReplayFold(AGGREGATE, until, None if max_aggregates is None else MaxAggregates(max_aggregates), part)
    ) as fold:
        for number in range(0, len(values), batch):
            fold.fold(values[number : number + batch], range(number, len(values)).__getitem__)
        rows = sorted(fold.rows())
        return fold.total(), rows


@pytest.mark.covers("state-is-events")
@settings(max_examples=50)
@given(history=histories, max_aggregates=st.integers(0, 20), until=st.sampled_from([None, NOON]))
def test_spilled_aggregates_are_the_same(
    history: list[tuple[int, bool]], max_aggregates: int, until: str | None
) -> None:
    values = events(history)
    assert total_and_rows(values, max_aggregates, until) == total_and_rows(values, None, until)


@pytest.mark.covers("state-is-events")
@settings(max_examples=50)
@given(history=histories, max_aggregates=st.none() | st.integers(0, 20), parts=st.integers(1, 8))
def test_parts_add_up_to_the_total(
    history: list[tuple[int, bool]], max_aggregates: int | None, parts: int
) -> None:
    values, total = events(history), EMPTY_TOTAL
    rows: list[AggregateRow] = []
    keys = [f"a{number}".encode() for number, _ in history]
    for part in [part_of(number, parts) for number in range(parts)]:
        part_total, part_rows = total_and_rows(
            list(compress(values, are_in_part(keys, part))), max_aggregates, part=part
        )
        total, rows = total.plus(part_total), rows + part_rows
    assert (total, sorted(rows)) == total_and_rows(values, None)


def test_spilled_contradiction_has_its_offset() -> None:
    values = [counter_event(f"a{number}", 1) for number in range(50)]
    for number in range(50):
        with pytest.raises(ReplayFoldError, match=f"offset 50: 'a{number}' is at version 1") as raised:
            total_and_rows([*values, counter_event(f"a{number}", 3)], 5)
        assert raised.value.offset == 50


def test_limit_stays_where_it_was_reached() -> None:
    """Freed memory is not returned to the system: the count at which the limit was reached stays the maximum."""
    measurements = [100, 100, 1001, 1001, 1001, 1100]
    limit = MemoryLimit(1000, lambda: measurements.pop(0), min_aggregates=2)
    assert [limit.is_reached(count) for count in (5, 10, 5, 10, 6)] == [False, True, False, True, True]


def test_few_aggregates_are_never_too_many() -> None:
    assert not MemoryLimit(1, lambda: 1 << 40).is_reached(limit.MIN_AGGREGATES - 1)


def test_full_disk_is_named() -> None:
    with limit_file_size(100), pytest.raises(ConfigurationError, match="do not fit into memory") as raised:
        total_and_rows(events([(number, False) for number in range(20)]), 5)
    assert "TMPDIR" in raised.value.hint


REPLAY_PROGRAM = """
import resource, sys
from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.scans.replay.fold import ReplayFold
from cqrs_cli.scans.replay.limit import MemoryLimit
from cqrs_cli.system.memory import process_memory
from tests.support.eventlog import counter_event
fold = ReplayFold(Aggregate.of("counter", counter.decider), None, MemoryLimit(process_memory() + int(sys.argv[1])))
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (28 << 20),) * 2)
for version in (1, 2):
    for start in range(0, 15_000, 1_000):
        values = [counter_event(f"{number:03000}", version) for number in range(start, start + 1_000)]
        fold.fold(values, range(start, start + 1_000).__getitem__)
print(fold.total()[:2])
"""


@pytest.mark.program
@pytest.mark.covers("state-is-events")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to measure memory")
def test_more_aggregates_than_memory_holds() -> None:
    """A replay of 51 MB of ids stays within 28 MB of additional memory; without the limit it dies."""
    bounded, unbounded = (
        subprocess.run(
            [sys.executable, "-c", REPLAY_PROGRAM, str(memory)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        for memory in (8 << 20, 1 << 40)
    )
    assert (bounded.stdout, bounded.returncode) == ("(15000, 30000)\n", 0), bounded.stderr
    assert (unbounded.stdout, unbounded.returncode != 0) == ("", True)  # MemoryError, or a crash in C
