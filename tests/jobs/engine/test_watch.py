"""The time that a partition may be without an owner."""

from cqrs_cli.jobs.engine.watch import UnownedPartitions


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_partition_has_its_own_timeout() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    assert unowned.overdue_partitions(["a:0"]) == []
    clock.now = 50
    assert unowned.overdue_partitions(["a:0", "a:1"]) == []
    clock.now = 61
    assert unowned.overdue_partitions(["a:0", "a:1"]) == ["a:0"]


def test_claim_resets_the_timeout() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue_partitions(["a:0"])
    clock.now = 3600
    assert unowned.overdue_partitions([]) == unowned.overdue_partitions(["a:0"]) == []


def test_submission_restarts_timeouts_of_its_partitions() -> None:
    """A task that is lost again and again does not extend the timeout of other tasks."""
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue_partitions(["a:0", "a:1"])
    clock.now = 59
    unowned.restart(["a:0"])
    clock.now = 61
    assert unowned.overdue_partitions(["a:0", "a:1"]) == ["a:1"]


def test_lost_broker_restarts_all_timeouts() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue_partitions(["a:0"])
    clock.now = 59
    unowned.restart()
    unowned.overdue_partitions(["a:0"])
    clock.now = 118
    assert unowned.overdue_partitions(["a:0"]) == []
