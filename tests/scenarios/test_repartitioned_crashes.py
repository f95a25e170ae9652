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
Stories = dict[str, list[OutcomeEnvelope]]

#: The failpoints at which owners are killed, in sequence, on the way from 2 to 4 partitions, and to 8.
BLOWS = {
    "at each step": (
        ("split.before:1", "split.after:1", "adopt.before_begun:1", "adopt.chunk:1", "forward.said:2"),
        ("split.after:2", "adopt.chunk:3", "forward.said:1"),
    ),
    "in commits": (
        ("commit.sent:3", "commit.sent:4", "commit.after:5", "offsets.after:6", "recover.deferred:3"),
        ("commit.sent:9", "commit.sent:12", "commit.after:15", "again.said:1"),
    ),
    "without a run between": ((), ("split.before:3", "split.after:1", "adopt.before_begun:1")),
}


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("blows", sample_cases(BLOWS, "at each step"))
def test_growth_under_traffic_harms_nothing(
    connection: Connection, prefix: str, tmp_path: Path, blows: str
) -> None:
    bank = TopicHarness(connection, prefix, tmp_path, "bank_account", partitions=2)
    with traffic(bank) as clients:
        owner = OwnerProcess(bank.plan(once=False))
        eventually(lambda: all(client.rounds > 1 for client in clients))
        for deaths in BLOWS[blows]:
            repartition(connection, bank.topics, bank.partitions * 2, "murmur2")
            bank.partitions *= 2
            for place in deaths:
                assert OwnerProcess(
                    bank.plan(once=False), f"{place}:kill", transaction_timeout=3.0
                ).was_killed()
        owner = OwnerProcess(bank.plan(once=False))
        reached = [client.rounds for client in clients]
        eventually(lambda: all(client.rounds > was + 1 for client, was in zip(clients, reached, strict=True)))
    run_plan(bank.plan())
    assert owner.results() is not None
    assert current_lineage(bank).counts == (2, 4, 8) and current_lineage(bank).activated == set(range(2, 8))
    check(bank, clients)


def check(bank: TopicHarness, clients: list[Client]) -> None:
    """Assert that no command is lost or decided twice, and that all records about it agree."""
    assert [client.error for client in clients if client.error is not None] == []
    stories = final_outcomes(bank)
    check_each_once(clients, stories)
    check_like_a_sequence(
        bank, {id: command for client in clients for id, command in client.sent.items()}, stories
    )
    check_events(bank, stories)
    assert bank.violations("state") == []


def check_each_once(clients: list[Client], stories: Stories) -> None:
    """Check that each id has one final outcome. The outcomes of a client that waits are in its order of sending."""
    causations = {account: [event.causationid or "" for event in story] for account, story in stories.items()}
    sent = [id for client in clients for id in client.sent]
    assert Counter(id for ids in causations.values() for id in ids) == Counter(sent)
    for client in clients:
        for account in client.accounts:
            own_ids = [id for id, command in client.sent.items() if command["subject"] == account]
            assert [id for id in causations[account] if not is_later(id)] == [
                id for id in own_ids if not is_later(id)
            ]


def check_like_a_sequence(bank: TopicHarness, sent: dict[str, Document], stories: Stories) -> None:
    """Check that deciding each account's commands in sequence gives the same outcomes and states."""
    shards = [bank.shard_states(partition=number) for number in range(bank.partitions)]
    states = {name: saved for shard in shards for name, saved in shard.items()}
    assert sum(map(len, shards)) == len(states) == len(stories)
    for account, story in stories.items():
        events = [event for event in story if event.causationid is not None and is_the_accounts(event)]
        alone = decide_in_sequence(bank, [sent[event.causationid or ""] for event in events])
        expected = [read_outcome(value).data for value, _, _ in alone.outcomes]
        assert [facts(event.data) for event in events] == [facts(outcome) for outcome in expected]
        state = pack(bank.aggregate, account, alone.states[account])
        assert (states[account].version, states[account].state) == (state.version, state.state)


def check_events(bank: TopicHarness, stories: Stories) -> None:
    """Check that each accepted command has its event once, and that a replay equals the shards."""
    accepted = [
        event.causationid for story in stories.values() for event in story if event.data.status == "accepted"
    ]
    records = [record for number in range(bank.partitions) for record in bank.records("events", number)]
    assert Counter(read_event(record.value).causationid for record in records) == Counter(accepted)
    total = replay_total(plan_replay(bank.connection, bank.topics, "aggregates", ROOT))
    assert (total.aggregates, total.events) == (len(stories), len(accepted))
    assert as_hex(total.digest) == bank.digest()


def is_later(id: str) -> bool:
    return id.endswith(".later")


def is_the_accounts(outcome: OutcomeEnvelope) -> bool:
    """True if `decide` was called: not for commands about a deferred command, nor for a cancelled command."""
    return not outcome.type.startswith("cqrs.") and outcome.data.reason != Reason.CANCELLED.name


def facts(verdict: Verdict) -> tuple[object, ...]:
    return verdict.status, verdict.version, verdict.events, verdict.reason, verdict.code, verdict.message
