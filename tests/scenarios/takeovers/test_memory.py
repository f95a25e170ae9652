"""Owners that keep their states in memory: killed, taken over, and refused if the states do not fit."""

from dataclasses import replace

import pytest

from cqrs_cli.deciding.plan import Plan
from cqrs_cli.state.memory import StoreFullError
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def in_memory(bank: TopicHarness, once: bool = True, limit: int = 1 << 30) -> Plan:
    return replace(bank.plan(once=once), store="memory", store_limit=limit)


@pytest.mark.covers("one-outcome")
def test_killed_memory_owner_is_replaced(single_bank: TopicHarness) -> None:
    commands = list(mixed_commands(700))
    single_bank.send(*commands[:200])
    run_plan(in_memory(single_bank))
    single_bank.send(*commands[200:])
    assert OwnerProcess(
        in_memory(single_bank), "apply.inside:4:kill", batch_limit=50, apply_every=150
    ).was_killed()
    run_plan(in_memory(single_bank))
    single_bank.send(*commands[:100])  # duplicates: the ids were rebuilt from the outcomes
    run_plan(in_memory(single_bank))
    single_bank.check_log()
    assert not single_bank.shard_path().exists()
    run_plan(single_bank.plan())
    single_bank.check()


def test_full_memory_ends_no_other_owner(single_bank: TopicHarness) -> None:
    commands = list(mixed_commands(300))
    single_bank.send(*commands[:200])
    with running_owners(single_bank.plan(once=False)) as owner:
        eventually(lambda: len(single_bank.outcomes()) == 200)
        error = run_plan_for_error(in_memory(single_bank, once=False, limit=5_000))
        assert isinstance(error, StoreFullError) and error.exit_code == 3
        single_bank.send(*commands[200:])
        eventually(lambda: len(single_bank.outcomes()) == 300)
        assert not owner.has_ended()
    single_bank.check()
