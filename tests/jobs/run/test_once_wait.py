"""When `--once` starts while another run is active: pure tests with a simulated clock."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.ownership.committed_claims import CommittedClaim
from cqrs_cli.runs.other_runs import wait_for_idle_names
from tests.ownership.claims import MINE

PLACE = Partition("counter", 0)
OTHER = replace(MINE, run="other")


def test_own_pauses_are_no_rest() -> None:
    """This process was paused for longer than its timeout between two responses, but the other run makes progress."""
    now, notes = 0.0, list[str]()
    offsets: Iterator[int] = iter([1, 1, 2])

    def look() -> Mapping[Partition, CommittedClaim]:
        nonlocal now
        now += 60.0
        return {PLACE: CommittedClaim(next(offsets), OTHER)}

    idle = wait_for_idle_names(
        look, {PLACE: 2}, lambda partition: partition.aggregate, notes.append, 5.0, lambda: now
    )
    assert (idle, len(notes)) == (set(), 1)


def test_blocked_runs_are_waited_for() -> None:
    """A client's open transaction hides the remaining commands for longer than the timeout."""
    moments, blocked = iter(map(float, range(0, 99, 9))), iter([True, False])
    idle = wait_for_idle_names(
        lambda: {PLACE: CommittedClaim(1, OTHER)},
        {PLACE: 2},
        lambda partition: partition.aggregate,
        lambda _: None,
        5.0,
        lambda: next(moments),
        lambda partition, committed: next(blocked),
    )
    assert (idle, next(blocked, None)) == ({"counter"}, None)


def test_resting_runs_are_not_waited_for() -> None:
    moments = iter([0.0, 1.0, 5.9, 6.0, 6.1, 6.2])
    idle = wait_for_idle_names(
        lambda: {PLACE: CommittedClaim(1, OTHER)},
        {PLACE: 2},
        lambda partition: partition.aggregate,
        lambda _: None,
        5.0,
        lambda: next(moments),
    )
    assert (idle, next(moments, None)) == ({"counter"}, None)
