"""Two runs on the same topics, each in its own process: the newer run decides, the older ends, no command repeats."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from cqrs_cli.deciding.plan import Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-owner")
@pytest.mark.parametrize("machine", ["state", "other"], ids=["one state folder", "two state folders"])
def test_the_newer_run_takes_every_partition(bank: TopicHarness, machine: str) -> None:
    commands = list(mixed_commands(3000))
    bank.send(*commands[:2500])
    older_plan, newer_plan = bank.plan(once=False), bank.plan(once=False, machine=machine)
    older = OwnerProcess(older_plan, batch_limit=50)
    bank.await_outcomes(100)
    newer = OwnerProcess(newer_plan, batch_limit=50)
    assert isinstance(older.error(), TakenOverError)
    eventually(lambda: {bank.owning_run(0), bank.owning_run(1)} == {newer_plan.run})
    claims = [bank.position_and_claim(partition)[1] for partition in range(2)]
    bank.send(*commands[2500:])
    ends = [bank.stable_end("commands", partition) for partition in range(2)]
    eventually(lambda: [len(bank.outcomes(partition)) for partition in range(2)] == ends)
    for partition, before_claim in enumerate(claims):
        claim = bank.position_and_claim(partition)[1]
        assert before_claim and claim and claim.run == newer_plan.run
        assert (
            claim.number <= before_claim.number + 1
        )  # more only if the older run fenced it once before its exit
    retire(newer_plan)
    assert newer.error() is None
    bank.check(machine)


def act_before(method: str, action: Callable[[], None]) -> type[FencedWriter]:
    """Return a writer class that calls `action` before the first call of this method."""
    actions = [action]

    def act_then_call(writer: FencedWriter, *arguments: Any) -> Any:
        if actions:
            actions.pop()()
        return getattr(FencedWriter, method)(writer, *arguments)

    return type("Late", (FencedWriter,), {method: act_then_call})


@pytest.mark.covers("one-owner")
@pytest.mark.parametrize("method", ["fence", "commit_position"])
def test_a_stopping_run_spares_its_successor(
    counters: TopicHarness,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    older: Plan = counters.plan(once=False)
    newer: Plan = counters.plan(once=False, machine="other")
    with ExitStack() as stack:
        first = stack.enter_context(running_owners(older))
        counters.send(*increment_commands(5))
        counters.await_outcomes(5)

        def take_over() -> None:
            takeovers.append(stack.enter_context(running_owners(newer)))
            eventually(lambda: counters.owning_run() == newer.run)

        takeovers: list[object] = []
        monkeypatch.setattr("cqrs_cli.deciding.session.FencedWriter", act_before(method, take_over))
        retire(older)
        assert takeovers
        error = first.error()
        assert error is None or isinstance(error, TakenOverError)
        counters.send(*increment_commands(5, first=5))
        counters.await_outcomes(10)
        _, claim = counters.position_and_claim()
        assert claim and (claim.run, claim.attempt) == (newer.run, 0) and claim.attempt != TERMINAL
    counters.check("other")
