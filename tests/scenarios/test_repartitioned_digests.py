"""An aggregate that got the same commands has the same states, however its partitions were created."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cqrs_cli.core.digest import as_hex
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import repartition_topics, replay_total, with_stale_partition
from tests.support.sampling import sample_cases

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Three parts of a sequence of commands, whose outcomes depend on their order.
COMMANDS = list(mixed_commands(360))
FIRST, SECOND, THIRD = COMMANDS[:120], COMMANDS[120:240], COMMANDS[240:]


def from_the_start(bank: TopicHarness) -> None:
    bank.send(*COMMANDS)


def without_a_run(bank: TopicHarness) -> None:
    """Repartition twice before any owner splits: one takeover does both splits."""
    bank.send(*FIRST)
    for third in (SECOND, THIRD):
        repartition_topics(bank, 2 * bank.partitions)
        bank.send(*third)


def with_runs(bank: TopicHarness) -> None:
    """Let a run split after each repartitioning; then send commands with the first partition count."""
    first = bank.partitions
    bank.send(*FIRST)
    run_plan(bank.plan())
    for third in (SECOND, THIRD):
        repartition_topics(bank, 2 * bank.partitions)
        run_plan(bank.plan())
        bank.send(
            *(record if record.key is None else with_stale_partition(record, first) for record in third)
        )
    for _ in range(2):  # each run forwards by one step, and ends where the commands ended at its start
        run_plan(bank.plan())


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("first", sample_cases([1, 4], 1))
def test_every_way_leads_to_one_digest(
    connection: Connection, prefix: str, tmp_path: Path, first: int
) -> None:
    """Topics that were repartitioned have the same digest as topics that had all partitions from the start."""

    def digest(way: Callable[[TopicHarness], None], count: int) -> str:
        name = way.__name__
        bank = TopicHarness(connection, f"{prefix}{name}.", tmp_path / name, "bank_account", count)
        way(bank)
        run_plan(bank.plan())
        total = replay_total(plan_replay(connection, bank.topics, "aggregates", ROOT))
        assert bank.partitions == 4 * first and bank.digest() == as_hex(total.digest)
        return as_hex(total.digest)

    assert (
        len({digest(from_the_start, 4 * first), digest(without_a_run, first), digest(with_runs, first)}) == 1
    )
