"""A later run ends an earlier run, and the fence ends its open transaction."""

from dataclasses import replace

import pytest

from cqrs_cli import failpoints
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerThread, run_plan, run_plan_for_error, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-owner")
def test_superseded_run_exits_with_6(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)) as first:
        counters.send(*increment_commands(5))
        counters.await_outcomes(5)
        with running_owners(counters.plan(once=False, machine="other")):
            error = first.error()
            assert isinstance(error, TakenOverError) and error.exit_code == 6
            counters.send(*increment_commands(5, first=5))
            counters.await_outcomes(10)
    counters.check("other")


@pytest.mark.covers("one-owner")
def test_older_run_yields_to_newer(counters: TopicHarness) -> None:
    older = counters.plan(once=False, machine="older")
    with running_owners(counters.plan(once=False)) as later_owner:
        counters.send(*increment_commands(5))
        counters.await_outcomes(5)
        assert isinstance(run_plan_for_error(older), TakenOverError)
        counters.send(*increment_commands(5, first=5))
        counters.await_outcomes(10)
        assert not later_owner.has_ended()
    counters.check()


@pytest.mark.covers("one-owner")
def test_straggler_ends_without_error(counters: TopicHarness) -> None:
    plan = counters.plan(once=False)
    with running_owners(plan) as straggler:
        counters.send(*increment_commands(5))
        counters.await_outcomes(5)
        with running_owners(replace(plan, state_dir=counters.folder / "other"), attempt=1):
            assert straggler.error() is None
            counters.send(*increment_commands(5, first=5))
            counters.await_outcomes(10)
    counters.check("other")


def test_takeover_during_recovery_is_named(counters: TopicHarness, capfd: pytest.CaptureFixture[str]) -> None:
    """The later run decides between the two requests of the outcomes' end, which no broker answers wrongly."""
    counters.send(*increment_commands(5))
    with failpoints.call_at("recover.owned", lambda: run_plan(counters.plan(machine="other"))):
        assert isinstance(run_plan_for_error(counters.plan()), TakenOverError)
    assert "two brokers" not in capfd.readouterr().err
    counters.check("other")


def test_retired_owner_leaves_clean_shard(counters: TopicHarness) -> None:
    plan = counters.plan(once=False)
    owner = OwnerThread(plan, 0)
    counters.send(*increment_commands(5))
    counters.await_outcomes(5)
    retire(plan)
    assert owner.error() is None
    assert counters.shutdown_marker() == "clean"
    _, claim = counters.position_and_claim()
    assert claim and claim.attempt == TERMINAL and claim.counts.commands == 5
    counters.check()


def test_retiring_does_not_end_the_successor(counters: TopicHarness) -> None:
    first, second = counters.plan(), counters.plan(once=False)
    run_plan(first)
    with running_owners(second) as later_owner:
        eventually(lambda: counters.owning_run() == second.run)
        retire(first)
        counters.send(*increment_commands(3))
        counters.await_outcomes(3)
        assert not later_owner.has_ended()


@pytest.mark.covers("no-lost-update")
def test_commits_before_the_fence_are_kept(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    earlier_plan, plan = counters.plan(machine="before"), counters.plan()
    with failpoints.call_at("fence.before", lambda: run_plan(earlier_plan)):
        run_plan(plan)
    counters.check()


def test_contradiction_during_takeover_is_a_takeover(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    plan = counters.plan()
    with failpoints.call_at("claim.after", lambda: run_plan(counters.plan(machine="other"))):
        assert isinstance(run_plan_for_error(plan), TakenOverError)
    counters.check("other")


def test_fence_aborts_the_open_transaction(counters: TopicHarness) -> None:
    counters.send(*increment_commands(5))
    previous_producer = producer(counters.connection, transactional_id=counters.topics.transactional_id(0))
    previous_producer.init_transactions(10)
    previous_producer.begin_transaction()
    previous_producer.produce(counters.topics.outcomes, b"never committed", partition=0)
    assert previous_producer.flush(10) == 0
    run_plan(counters.plan())
    counters.check()


@pytest.mark.covers("one-owner")
def test_fence_without_claim_ends_no_owner(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)) as owner:
        counters.send(*increment_commands(5))
        counters.await_outcomes(5)
        for first in (5, 10):
            producer(
                counters.connection, transactional_id=counters.topics.transactional_id(0)
            ).init_transactions(10)
            counters.send(*increment_commands(5, first=first))
            counters.await_outcomes(first + 5)
        assert not owner.has_ended()
    counters.check()
