"""A later run takes over one partition after the other: the others are decided until it comes to them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increments
from tests.support.driver import Context, drive, works
from tests.support.harness import TopicHarness
from tests.support.owners import Running, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters in two partitions: `a` is in the one, `d` in the other."""
    counters = TopicHarness(connection, prefix, tmp_path, partitions=2)
    assert (counters.home("a"), counters.home("d")) == (0, 1)
    return counters


def decide(counters: TopicHarness, subject: str, first: int) -> None:
    """Five more commands of a counter are decided."""
    counters.send(*increments(5, subject, first))
    counters.await_outcomes(first + 5, counters.home(subject))


@contextmanager
def half_taken(counters: TopicHarness, machine: str) -> Iterator[Running]:
    """A later run that has the second partition and does not come to the first."""
    plan = counters.plan(once=False, machine=machine)
    with running(plan, share=(1, 2)) as later:
        eventually(lambda: counters.owner(1) == plan.run)
        yield later


@pytest.mark.pins("one-owner")
def test_owner_works_until_its_own_takeover(two: TopicHarness) -> None:
    with running(two.plan(once=False)) as first:
        decide(two, "a", 0)
        decide(two, "d", 0)
        with half_taken(two, "other") as later:
            decide(two, "d", 5)
            decide(two, "a", 5)
            assert two.owner(0) == first.plan.run and not first.ended()
            with running(later.plan, share=(0, 2)):
                assert isinstance(first.error(), TakenOverError)
                assert all(isinstance(one.error, TakenOverError) for one in first.endings)
                decide(two, "a", 10)
    two.check("other")


def test_driver_fences_nothing_meanwhile(two: TopicHarness) -> None:
    """Neither before the later run has come to the rest, nor after."""
    plan = two.plan(once=False)
    with ThreadPoolExecutor(1) as beside:
        driving = beside.submit(drive, Context(works), plan, next_claim=60.0, idle_check=0.1)
        decide(two, "a", 0)
        with half_taken(two, "other") as later:
            decide(two, "a", 5)
            _, before = two.standing(0)
            with running(later.plan, share=(0, 2)):
                with pytest.raises(TakenOverError, match="took over these topics"):
                    driving.result(60)
                decide(two, "a", 10)
                _, after = two.standing(0)
                assert before and after and after.n == before.n + 1
    two.check("other")


def test_rest_is_not_kept_for_ever(two: TopicHarness) -> None:
    """The later run died, or wants no more."""
    plan = two.plan(once=False)
    with ThreadPoolExecutor(1) as beside:
        driving = beside.submit(drive, Context(works), plan, next_claim=0.3, idle_check=0.1)
        decide(two, "a", 0)
        with half_taken(two, "other"):
            with pytest.raises(TakenOverError):
                driving.result(60)
            _, claim = two.standing(0)
            assert claim and claim.run == plan.run and claim.attempt == TERMINAL
            assert two.mark("state", 0) == "clean"
