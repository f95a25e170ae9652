"""A later run takes over the partitions one by one. The earlier run decides the remaining partitions until then."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerThread, running_owners
from tests.support.slots import FakeCluster, running_driver, separate_owner_task
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def decide(counters: TopicHarness, subject: str, first: int) -> None:
    """Send five commands to a counter, and wait until they are decided."""
    counters.send(*increment_commands(5, subject, first))
    counters.await_outcomes(first + 5, counters.partition_of(subject))


@contextmanager
def owner_of_second_partition(counters: TopicHarness, machine: str) -> Iterator[OwnerThread]:
    """Run an owner of a later run on the second partition only, while the block lasts."""
    plan = counters.plan(once=False, machine=machine)
    with running_owners(plan, share=(1, 2)) as later_owner:
        eventually(lambda: counters.owning_run(1) == plan.run)
        yield later_owner


@pytest.mark.covers("one-owner")
def test_owner_works_until_its_own_takeover(two_partitions: TopicHarness) -> None:
    with running_owners(two_partitions.plan(once=False)) as first:
        decide(two_partitions, "a", 0)
        decide(two_partitions, "d", 0)
        with owner_of_second_partition(two_partitions, "other") as later_owner:
            decide(two_partitions, "d", 5)
            decide(two_partitions, "a", 5)
            assert two_partitions.owning_run(0) == first.plan.run and not first.has_ended()
            with running_owners(later_owner.plan, share=(0, 2)):
                assert isinstance(first.error(), TakenOverError)
                assert all(isinstance(result.error, TakenOverError) for result in first.results)
                decide(two_partitions, "a", 10)
    two_partitions.check("other")


@pytest.mark.covers("one-owner")
def test_driver_fences_nothing_during_a_takeover(two_partitions: TopicHarness) -> None:
    """After a task has lost its partition to a later run, the other task decides until the later run takes over."""
    plan, context = two_partitions.plan(once=False), FakeCluster(2, separate_owner_task)
    with running_driver(context, plan, 2, [], next_claim_timeout=60.0) as run:
        decide(two_partitions, "a", 0)
        decide(two_partitions, "d", 0)
        with owner_of_second_partition(two_partitions, "other") as later_owner:
            eventually(lambda: len(context.running) == 1)
            decide(two_partitions, "a", 5)
            _, claim_before = two_partitions.position_and_claim(0)
            with running_owners(later_owner.plan, share=(0, 2)):
                with pytest.raises(TakenOverError, match="took over these topics"):
                    run.result(60)
                decide(two_partitions, "a", 10)
                _, claim_after = two_partitions.position_and_claim(0)
                assert (
                    claim_before
                    and claim_after
                    and (claim_before.run, claim_after.number) == (plan.run, claim_before.number + 1)
                )
    two_partitions.check("other")


def test_earlier_run_gives_up_remaining_partitions(two_partitions: TopicHarness) -> None:
    """The later run died, or takes no more partitions. The earlier run gives up its remaining partitions."""
    plan = two_partitions.plan(once=False)
    with running_driver(FakeCluster(1, separate_owner_task), plan, 1, [], next_claim_timeout=0.3) as run:
        decide(two_partitions, "a", 0)
        with owner_of_second_partition(two_partitions, "other"):
            with pytest.raises(TakenOverError):
                run.result(60)
            _, claim = two_partitions.position_and_claim(0)
            assert claim and claim.run == plan.run and claim.attempt == TERMINAL
