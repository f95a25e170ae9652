"""A replay up to a time or to offsets equals the live states at that time, when a run was stopped."""

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.client.aggregate_logs import bounds_until, find_ranges, read_records
from cqrs_cli.client.history import fold_history, parse_at
from cqrs_cli.core.digest import as_hex
from cqrs_cli.errors import UsageError
from cqrs_cli.jobs.replay.driver import plan_replay, replay_events
from tests.support import ROOT
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.covers("state-is-events")
def test_replay_equals_earlier_live_state(spark: "SparkContext", bank: TopicHarness) -> None:
    """A replay up to a time or to offsets equals the live state then, for all accounts and for one."""
    snapshots = []
    print("seed", seed := random.randrange(1_000_000))
    rng, commands = random.Random(seed), list(mixed_commands(150, seed=seed))
    while commands:
        count = rng.randrange(20, 100)
        batch, commands = commands[:count], commands[count:]
        bank.send(*batch)
        run_plan(bank.plan())
        eventually(lambda: bank.is_stable("events"))
        positions = {partition: bank.stable_end("events", partition) for partition in (0, 1)}
        times = [
            json.loads(record.value or b"")["time"]
            for partition in (0, 1)
            for record in bank.records("events", partition)
        ]
        snapshots.append(
            (
                positions,
                max(times),
                bank.digest(),
                bank.shard_states(partition=bank.partition_of("acc-1"))["acc-1"],
            )
        )

    def digest(**request: Any) -> str:
        plan = plan_replay(bank.connection, bank.topics, "aggregates", ROOT, **request)
        return as_hex(replay_events(spark, plan).total.digest)

    for positions, time, live_digest, account in snapshots:
        assert digest(positions=positions) == live_digest
        assert digest(until=time) == live_digest
        ranges = find_ranges(bank.connection, bank.topics, b"acc-1", "murmur2", positions)
        records = read_records(bank.connection, b"acc-1", ranges)
        history = fold_history(bank.aggregate, records, parse_at(None))
        assert (history.version, bank.aggregate.encode_state(history.state)) == (
            account.version,
            account.state,
        )


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({0: 3}, "there is no offset for bank.events partition 1"),
        ({0: 3, 1: 9}, "bank.events partition 1 has no offset 9: it reaches from 2 to 8"),
        ({0: 3, 1: 1}, "bank.events partition 1 has no offset 1: it reaches from 2 to 8"),
    ],
)
def test_positions_must_be_in_the_log(positions: dict[int, int], message: str) -> None:
    bounds = {0: (0, 5), 1: (2, 8)}
    with pytest.raises(UsageError, match=message):
        bounds_until("bank.events", bounds, positions)
    assert bounds_until("bank.events", bounds, {0: 3, 1: 2, 7: 1}) == {0: (0, 3), 1: (2, 2)}
