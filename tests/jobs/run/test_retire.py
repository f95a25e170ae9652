"""Ending a run from outside: its owners are fenced and its claims become terminal, unless no broker answers."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from cqrs_cli.deciding import retire as retiring
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.jobs.engine.long_job import LongJob
from cqrs_cli.jobs.run import RunWork
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.claim import TERMINAL, Claim, terminal_claim
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.retire import fence_and_replace_claim, retire_partitions
from cqrs_cli.ownership.timing import Timing
from tests.support.commands import increment_commands
from tests.support.driver import FakeSparkContext
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan


@pytest.mark.kafka
@pytest.mark.covers("one-outcome")
def test_terminal_claim_follows_last_outcome(counters: TopicHarness) -> None:
    """If the committed offset is before the last decided command, the terminal claim is committed after this command.
    At the committed offset it would move the group back.
    """
    counters.send(*increment_commands(5))
    plan = counters.plan()
    run_plan(plan)
    _, claim = counters.position_and_claim()
    assert claim is not None
    with closing(consumer(counters.connection, group=counters.topics.group)) as group:
        position = TopicPartition(counters.topics.commands, 0, 2, claim.metadata())
        group.commit(offsets=[position], asynchronous=False)
        retiring.retire(plan)
    offset, last_claim = counters.position_and_claim()
    assert offset == 5 and last_claim is not None and last_claim.attempt == TERMINAL


@pytest.mark.kafka
def test_only_its_open_claims_are_retired(counters: TopicHarness) -> None:
    """Each fence opens three clients, so only partitions with an open claim are fenced."""
    counters.send(*increment_commands(2))
    plan = counters.plan()
    run_plan(plan)
    partitions, retired = plan.partitions(), list[Partition]()

    def retire(
        run: str, connection: Connection = counters.connection, timeout: float = 60.0
    ) -> list[Partition]:
        retired.clear()
        slots = plan.claim_slots()
        retire_partitions(connection, slots, run, lambda partition, _: retired.append(partition), timeout)
        return retired

    assert retire("another") == []
    assert retire(plan.run) == partitions
    assert (
        retire(plan.run, Connection("127.0.0.1:1"), timeout=0.5) == partitions
    )  # without a broker, the claims are unknown
    retiring.retire(plan)
    assert retire(plan.run) == []


@pytest.mark.kafka
def test_fenced_retirements_are_repeated(counters: TopicHarness) -> None:
    """The fenced owner restarts before the terminal claim is committed, and fences the client that retires it."""
    counters.send(*increment_commands(2))
    plan = counters.plan()
    run_plan(plan)
    (partition,) = plan.partitions()
    session_numbers, replaced_claims = list[int](), list[Claim]()

    def open_session() -> OwnerSession:
        session_numbers.append(len(session_numbers))
        return OwnerSession(plan, partition, plan.claim(partition, 0), 1)

    def to_terminal_claim(_: int, claim: Claim) -> Claim | None:
        if len(session_numbers) == 1 and replaced_claims:
            run_plan(replace(plan, submission=1))  # between the fence and the claim
        replaced_claims.append(claim)
        return terminal_claim(claim, plan.run)

    fence_and_replace_claim(open_session, to_terminal_claim)
    _, last_claim = counters.position_and_claim()
    assert last_claim is not None and last_claim.attempt == TERMINAL
    assert len(session_numbers) == 2


class FakeJob:
    """A fake Spark job, and the progress of its run. It ends at the third `is_checkpointing` if `ends_in_time`."""

    def __init__(self, ends_in_time: bool) -> None:
        self.polls, self.ends_in_time, self.cancel_count = 0, ends_in_time, 0
        self.reports = SimpleNamespace(
            address=None, take_new_messages=lambda: ["no checkpoint"], end_tasks=lambda: None
        )

    def sends_heartbeats(self) -> bool:
        return True

    def is_alive(self) -> bool:
        return not (self.ends_in_time and self.polls == 3)

    def join(self, _: float) -> None: ...

    def cancel(self) -> None:
        self.cancel_count += 1

    def is_checkpointing(self) -> bool:
        self.polls += 1
        return True


@pytest.mark.kafka
@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("ends_in_time", [True, False])
def test_stop_leaves_time_for_checkpoints(counters: TopicHarness, ends_in_time: bool) -> None:
    """A stop waits for the last checkpoints, and cancels the job if they do not end."""
    notes: list[str] = []
    job: Any = FakeJob(ends_in_time)
    timing = Timing(close_timeout=0.0, retire_deadline=60.0 if ends_in_time else 0.1)
    plan = replace(counters.plan(), timing=timing)
    work = RunWork(cast(Any, FakeSparkContext()), plan, None, job, lambda _: None, notes.append)
    work.abort_tasks([job])
    assert (job.cancel_count, notes) == (0 if ends_in_time else 1, ["no checkpoint"])


class FenceCounter(RunWork):
    """The work of a run that counts its fences instead of fencing."""

    fence_count = 0

    def stop_tasks(self, jobs: Sequence[LongJob[OwnerExit[Any]]]) -> None:
        self.fence_count += 1


@pytest.mark.kafka
@pytest.mark.parametrize("is_reachable", [True, False])
def test_stop_fences_where_a_broker_answers(counters: TopicHarness, is_reachable: bool) -> None:
    """Without a broker all tasks are cancelled at once: otherwise each step would wait for its own deadline."""
    notes: list[str] = []
    job: Any = FakeJob(ends_in_time=False)
    plan = replace(
        counters.plan(), timing=Timing(close_timeout=0.0, retire_deadline=0.1, shutdown_answer_timeout=3.0)
    )
    plan = plan if is_reachable else replace(plan, connection=Connection("127.0.0.1:1"))
    work = FenceCounter(cast(Any, FakeSparkContext()), plan, None, job, lambda _: None, notes.append)
    assert work.abort_tasks([job]) is is_reachable
    assert (job.cancel_count, work.fence_count) == (1, 2 * is_reachable)
    assert notes[0].startswith(
        "no checkpoint" if is_reachable else "no answer from Kafka: cancelling all tasks"
    )
