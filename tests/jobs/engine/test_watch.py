"""The time that a place may be without an owner."""

from cqrs_cli.jobs.engine.watch import UnownedPartitions


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_place_has_its_own_timeout() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    assert unowned.overdue(["a:0"]) == []
    clock.now = 50
    assert unowned.overdue(["a:0", "a:1"]) == []
    clock.now = 61
    assert unowned.overdue(["a:0", "a:1"]) == ["a:0"]


def test_a_place_with_an_owner_starts_over() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue(["a:0"])
    clock.now = 3600
    assert unowned.overdue([]) == unowned.overdue(["a:0"]) == []


def test_a_submission_restarts_its_own_places() -> None:
    """A task that is lost again and again does not extend the timeout of other tasks."""
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue(["a:0", "a:1"])
    clock.now = 59
    unowned.restart(["a:0"])
    clock.now = 61
    assert unowned.overdue(["a:0", "a:1"]) == ["a:1"]


def test_a_lost_broker_restarts_all() -> None:
    clock = Clock()
    unowned = UnownedPartitions(60, clock)
    unowned.overdue(["a:0"])
    clock.now = 59
    unowned.restart()
    unowned.overdue(["a:0"])
    clock.now = 118
    assert unowned.overdue(["a:0"]) == []
