"""Pending child partitions fold before their activation, and the active run decides until they are ready."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.catch_up import CatchUp
from cqrs_cli.deciding.pending_partitions import wait_for_pending_partitions
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import committed_claims
from cqrs_cli.ownership.signals import LaterClaim
from cqrs_cli.ownership.standby import HeartbeatSender
from cqrs_cli.ownership.timing import Timing
from tests.deciding.repartitioned_counters import SUBJECTS, counters, round_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_in_thread, running_owners
from tests.support.repartitioning import final_statuses, repartition_topics, with_stale_partition
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

PARENT, CHILD = Partition("counter", 0), Partition("counter", 1)


@pytest.fixture
def single(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path, 1)


def wait(plan: Plan, partition: Partition, meanwhile: Callable[[], object]) -> None:
    consumer_pool = ConsumerPool(plan.connection, plan.claim_slot(partition).group)
    wait_for_pending_partitions(
        plan, partition, plan.claim(partition, 0), threading.Event(), meanwhile, consumer_pool
    )
    consumer_pool.close()


def claims(plan: Plan) -> dict[Partition, Claim | None]:
    claims_by_partition = committed_claims(plan.connection, plan.claim_slots())
    return {partition: committed.claim for partition, committed in claims_by_partition.items()}


@contextmanager
def repartitioned_during_run(single: TopicHarness) -> Iterator[Plan]:
    """The plan of an active run with heartbeats. Its aggregate was repartitioned from one partition to two."""
    plan = single.plan(once=False)
    heartbeat_sender = HeartbeatSender(
        plan.connection, plan.run, plan.claim_slots().values(), plan.timing.heartbeat_timeout
    )
    with running_owners(plan), heartbeat_sender:
        single.send(*round_commands(0))
        eventually(lambda: len(final_statuses(single)) == len(SUBJECTS))
        repartition_topics(single, 2)
        yield plan


def fail_if_called() -> None:
    raise AssertionError("the partition waits")


def test_a_parent_waits_for_its_child(single: TopicHarness) -> None:
    with repartitioned_during_run(single) as old_plan, ExitStack() as stack:
        plan, child_runs = single.plan(once=False, machine="next"), list[object]()

        def start_child() -> None:
            if not child_runs:
                child_runs.append(stack.enter_context(running_owners(plan, share=(1, 2))))

        wait(plan, PARENT, start_child)
        run_by_partition = {partition: claim and claim.run for partition, claim in claims(plan).items()}
        assert (child_runs != [], run_by_partition) == (True, {PARENT: old_plan.run, CHILD: plan.run})


def test_a_silent_run_is_not_waited_for(single: TopicHarness) -> None:
    run_plan(single.plan())
    repartition_topics(single, 2)
    plan = single.plan(timing=Timing(heartbeat_timeout=0.1))
    wait(plan, PARENT, lambda: None)
    assert claims(plan)[CHILD] is None


def test_a_later_run_ends_the_waiting(single: TopicHarness) -> None:
    run_plan(single.plan())
    repartition_topics(single, 2)
    plan, later_plan = single.plan(), single.plan()
    writer, group = (
        FencedWriter(plan.log(PARENT), 1_000_000),
        consumer(plan.connection, group=single.topics.group),
    )
    writer.fence()
    writer.commit_position(group, 0, later_plan.claim(PARENT, 0).metadata())
    group.close()
    with pytest.raises(LaterClaim):
        wait(plan, PARENT, lambda: None)


def test_only_parents_wait(single: TopicHarness) -> None:
    wait(single.plan(), PARENT, fail_if_called)
    with repartitioned_during_run(single):
        wait(single.plan(machine="next"), CHILD, fail_if_called)


def test_a_child_folds_while_it_waits(single: TopicHarness) -> None:
    """The child folds its parent's later decisions while it waits, so that its commands wait less after the split."""
    with repartitioned_during_run(single):
        plan = replace(single.plan(once=False), store="memory")
        supervisor = DecidingSupervisor(plan, CHILD, single.aggregate, 0, threading.Event())
        with running_in_thread(supervisor.run, supervisor.stopping):
            eventually(lambda: supervisor.measures.step == "wait")
            store = supervisor.store
            assert store is not None
            first_value = store.get_value("inherited")
            single.send(*(with_stale_partition(sent, 1) for sent in round_commands(1)))
            eventually(lambda: store.get_value("inherited") != first_value)
            assert supervisor.measures.step == "wait"


def test_takeover_during_the_wait_quarantines_nothing(single: TopicHarness) -> None:
    """After the child's last check of its claim, another run takes over, splits the parent and decides. The child folds
    the decisions before it notices the split.
    """
    run_plan(single.plan())
    repartition_topics(single, 2)
    single.send(*round_commands(0))
    plan = single.plan(timing=Timing(idle_check_interval=math.inf))
    supervisor = DecidingSupervisor(plan, CHILD, single.aggregate, 0, threading.Event())

    def take_over_and_fold() -> None:
        if supervisor.measures.step == "wait":
            run_plan(single.plan(machine="next"))
        supervisor._fold_unfenced()

    supervisor._catch_up = CatchUp(take_over_and_fold)
    supervisor.run()
    assert isinstance(supervisor.error, TakenOverError)
    assert supervisor.notes == []
