"""Partitions are added under traffic while owners are killed: no command is lost, repeated or reordered."""

from collections import Counter
from pathlib import Path

import pytest

from cqrs_cli.core.digest import as_hex
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict, read_outcome
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.deciding.packing import pack
from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.repartitioning import current_lineage, replay_total
from tests.support.sampling import sample_cases
from tests.support.traffic import Client, Document, decide_in_sequence, final_outcomes, traffic
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: The final outcomes of each account.
OutcomesByAccount = dict[str, list[OutcomeEnvelope]]

#: The failpoints at which owners are killed, in sequence, on the way from 2 to 4 partitions, and to 8.
FAILPOINTS = {
    "at each step": (
        ("split.before:1", "split.after:1", "import.last:1", "import.chunk:1", "forward.produced:2"),
        ("split.after:2", "import.chunk:3", "forward.produced:1"),
    ),
    "in commits": (
        ("commit.sent:3", "commit.sent:4", "commit.after:5", "offsets.after:6", "recover.deferred:3"),
        ("commit.sent:9", "commit.sent:12", "commit.after:15", "resubmit.produced:1"),
    ),
    "without a run between": ((), ("split.before:3", "split.after:1", "import.last:1")),
}


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("case", sample_cases(FAILPOINTS, "at each step"))
def test_repartitioning_under_traffic_harms_nothing(
    connection: Connection, prefix: str, tmp_path: Path, case: str
) -> None:
    bank = TopicHarness(connection, prefix, tmp_path, "bank_account", partitions=2)
    with traffic(bank) as clients:
        owner = OwnerProcess(bank.plan(once=False))
        eventually(lambda: all(client.rounds > 1 for client in clients))
        for failpoints in FAILPOINTS[case]:
            repartition(connection, bank.topics, bank.partitions * 2, "murmur2")
            bank.partitions *= 2
            for failpoint in failpoints:
                assert OwnerProcess(
                    bank.plan(once=False), f"{failpoint}:kill", transaction_timeout=3.0
                ).was_killed()
        owner = OwnerProcess(bank.plan(once=False))
        rounds_before = [client.rounds for client in clients]
        eventually(
            lambda: all(
                client.rounds > rounds + 1 for client, rounds in zip(clients, rounds_before, strict=True)
            )
        )
    run_plan(bank.plan())
    assert owner.results() is not None
    assert current_lineage(bank).counts == (2, 4, 8) and current_lineage(bank).activated == set(range(2, 8))
    check(bank, clients)


def check(bank: TopicHarness, clients: list[Client]) -> None:
    """Assert that no command is lost or decided twice, and that all records about it agree."""
    assert [client.error for client in clients if client.error is not None] == []
    outcomes_by_account = final_outcomes(bank)
    check_each_once(clients, outcomes_by_account)
    check_like_a_sequence(
        bank, {id: command for client in clients for id, command in client.sent.items()}, outcomes_by_account
    )
    check_events(bank, outcomes_by_account)
    assert bank.violations("state") == []


def check_each_once(clients: list[Client], outcomes_by_account: OutcomesByAccount) -> None:
    """Check that each id has one final outcome. The outcomes of a client that waits are in its order of sending."""
    command_ids = {
        account: [outcome.causationid or "" for outcome in outcomes]
        for account, outcomes in outcomes_by_account.items()
    }
    sent = [id for client in clients for id in client.sent]
    assert Counter(id for ids in command_ids.values() for id in ids) == Counter(sent)
    for client in clients:
        for account in client.accounts:
            own_ids = [id for id, command in client.sent.items() if command["subject"] == account]
            assert [id for id in command_ids[account] if not is_deferred(id)] == [
                id for id in own_ids if not is_deferred(id)
            ]


def check_like_a_sequence(
    bank: TopicHarness, sent: dict[str, Document], outcomes_by_account: OutcomesByAccount
) -> None:
    """Check that deciding each account's commands in sequence gives the same outcomes and states."""
    shards = [bank.shard_states(partition=number) for number in range(bank.partitions)]
    states = {name: stored_state for shard in shards for name, stored_state in shard.items()}
    assert sum(map(len, shards)) == len(states) == len(outcomes_by_account)
    for account, outcomes in outcomes_by_account.items():
        events = [
            outcome for outcome in outcomes if outcome.causationid is not None and has_called_decide(outcome)
        ]
        sequential = decide_in_sequence(bank, [sent[outcome.causationid or ""] for outcome in events])
        expected = [read_outcome(value).data for value, _, _ in sequential.outcomes]
        assert [verdict_fields(outcome.data) for outcome in events] == [
            verdict_fields(outcome) for outcome in expected
        ]
        state = pack(bank.aggregate, account, sequential.states[account])
        assert (states[account].version, states[account].state) == (state.version, state.state)


def check_events(bank: TopicHarness, outcomes_by_account: OutcomesByAccount) -> None:
    """Check that each accepted command has its event once, and that a replay equals the shards."""
    accepted = [
        outcome.causationid
        for outcomes in outcomes_by_account.values()
        for outcome in outcomes
        if outcome.data.status == "accepted"
    ]
    records = [record for number in range(bank.partitions) for record in bank.records("events", number)]
    assert Counter(read_event(record.value).causationid for record in records) == Counter(accepted)
    total = replay_total(plan_replay(bank.connection, bank.topics, "aggregates", ROOT))
    assert (total.aggregates, total.events) == (len(outcomes_by_account), len(accepted))
    assert as_hex(total.digest) == bank.digest()


def is_deferred(id: str) -> bool:
    return id.endswith(".later")


def has_called_decide(outcome: OutcomeEnvelope) -> bool:
    """True if `decide` was called: not for commands about a deferred command, nor for a cancelled command."""
    return not outcome.type.startswith("cqrs.") and outcome.data.reason != Reason.CANCELLED.name


def verdict_fields(verdict: Verdict) -> tuple[object, ...]:
    return verdict.status, verdict.version, verdict.events, verdict.reason, verdict.code, verdict.message
