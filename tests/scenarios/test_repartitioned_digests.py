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


def with_all_partitions(bank: TopicHarness) -> None:
    bank.send(*COMMANDS)


def with_one_takeover(bank: TopicHarness) -> None:
    """Repartition twice before any owner splits: one takeover does both splits."""
    bank.send(*FIRST)
    for commands in (SECOND, THIRD):
        repartition_topics(bank, 2 * bank.partitions)
        bank.send(*commands)


def with_a_run_each(bank: TopicHarness) -> None:
    """Let a run split after each repartitioning; then send commands with the first partition count."""
    first_count = bank.partitions
    bank.send(*FIRST)
    run_plan(bank.plan())
    for commands in (SECOND, THIRD):
        repartition_topics(bank, 2 * bank.partitions)
        run_plan(bank.plan())
        bank.send(
            *(
                record if record.key is None else with_stale_partition(record, first_count)
                for record in commands
            )
        )
    for _ in range(2):  # each run forwards by one step, and ends where the commands ended at its start
        run_plan(bank.plan())


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("first_count", sample_cases([1, 4], 1))
def test_every_repartitioning_leads_to_one_digest(
    connection: Connection, prefix: str, tmp_path: Path, first_count: int
) -> None:
    """Topics that were repartitioned have the same digest as topics that had all partitions from the start."""

    def digest(create_topics: Callable[[TopicHarness], None], count: int) -> str:
        name = create_topics.__name__
        bank = TopicHarness(connection, f"{prefix}{name}.", tmp_path / name, "bank_account", count)
        create_topics(bank)
        run_plan(bank.plan())
        total = replay_total(plan_replay(connection, bank.topics, "aggregates", ROOT))
        assert bank.partitions == 4 * first_count and bank.digest() == as_hex(total.digest)
        return as_hex(total.digest)

    assert (
        len(
            {
                digest(with_all_partitions, 4 * first_count),
                digest(with_one_takeover, first_count),
                digest(with_a_run_each, first_count),
            }
        )
        == 1
    )
