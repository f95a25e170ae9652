"""When `--once` starts while another run is active: pure tests with a simulated clock."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.ownership.committed_claims import CommittedClaim
from cqrs_cli.runs.other_runs import wait_for_idle_names
from tests.ownership.claims import OWN_CLAIM

PARTITION = Partition("counter", 0)
OTHER_CLAIM = replace(OWN_CLAIM, run="other")


def test_own_pauses_are_not_idle_time() -> None:
    """This process was paused for longer than its timeout between two responses, but the other run makes progress."""
    now, notes = 0.0, list[str]()
    offsets: Iterator[int] = iter([1, 1, 2])

    def poll_claims() -> Mapping[Partition, CommittedClaim]:
        nonlocal now
        now += 60.0
        return {PARTITION: CommittedClaim(next(offsets), OTHER_CLAIM)}

    idle_names = wait_for_idle_names(
        poll_claims, {PARTITION: 2}, lambda partition: partition.aggregate, notes.append, 5.0, lambda: now
    )
    assert (idle_names, len(notes)) == (set(), 1)


def test_blocked_runs_are_waited_for() -> None:
    """A client's open transaction hides the remaining commands for longer than the timeout."""
    times, blocked = iter(map(float, range(0, 99, 9))), iter([True, False])
    idle_names = wait_for_idle_names(
        lambda: {PARTITION: CommittedClaim(1, OTHER_CLAIM)},
        {PARTITION: 2},
        lambda partition: partition.aggregate,
        lambda _: None,
        5.0,
        lambda: next(times),
        lambda partition, committed: next(blocked),
    )
    assert (idle_names, next(blocked, None)) == ({"counter"}, None)


def test_idle_runs_are_not_waited_for() -> None:
    times = iter([0.0, 1.0, 5.9, 6.0, 6.1, 6.2])
    idle_names = wait_for_idle_names(
        lambda: {PARTITION: CommittedClaim(1, OTHER_CLAIM)},
        {PARTITION: 2},
        lambda partition: partition.aggregate,
        lambda _: None,
        5.0,
        lambda: next(times),
    )
    assert (idle_names, next(times, None)) == ({"counter"}, None)
