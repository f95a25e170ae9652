"""Kafka leaves a transaction open in the deferred topic or in the dead letters: no record of a decision is lost."""

import time

import pytest
from confluent_kafka import TopicPartition

from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.core.messages.timestamps import rfc3339
from tests.support.commands import FAR_FUTURE, CommandRecord, command, increment_commands
from tests.support.hanging_transactions import (
    HangingTransaction,
    Output,
    Part,
    decide_hanging,
    resubmit_hanging,
)
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.raw_requests import RawClient
from tests.support.sampling import sample_cases
from tests.support.short_timeouts import short_read_timeout

pytestmark = pytest.mark.kafka

DEFERRED_COMMAND = command("counter.Increment", "b", "later", {"by": 1}, notbefore=FAR_FUTURE)
FAILED_COMMAND = command("counter.Unknown", "b", "unknown", {})

#: A command, and the visible and hidden parts of its transaction.
PARTS: dict[str, tuple[CommandRecord, list[Part], list[Part]]] = {
    "deferred missing": (DEFERRED_COMMAND, ["outcomes", "position"], ["deferred"]),
    "outcomes visible": (DEFERRED_COMMAND, ["outcomes"], ["deferred", "position"]),
    "deferred visible": (DEFERRED_COMMAND, ["deferred", "position"], ["outcomes"]),
    "deferred alone": (DEFERRED_COMMAND, [], ["deferred", "outcomes"]),
    "dead letter missing": (FAILED_COMMAND, ["outcomes"], ["dead-letters", "position"]),
}


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("case", sample_cases(PARTS, "deferred missing", "dead letter missing"))
def test_half_a_transaction_keeps_other_records(counters: TopicHarness, client: RawClient, case: str) -> None:
    sent, visible, hidden = PARTS[case]
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    decide_hanging(counters, client, [sent], visible, hidden)
    with short_read_timeout(), running_owners(counters.plan()) as owner:
        assert owner.error() is None
        (note,) = owner.notes()
    assert "KAFKA-20734" in note and ("it is committed" in note) is bool(visible)
    entries = [
        read_deferral(record.key or b"", record.value or b"").id for record in counters.records("deferred")
    ]
    letters = counters.records("dead-letters")
    assert (entries, len(letters)) == ((["later"], 0) if sent is DEFERRED_COMMAND else ([], 1))
    assert [outcome.data.offset for outcome in counters.outcomes()] == [
        record.offset for record in counters.records("commands")
    ]
    assert counters.violations() == []


@pytest.mark.covers("nothing-skipped")
def test_hanging_probe_is_aborted(counters: TopicHarness, client: RawClient) -> None:
    """Kafka has omitted the abort markers of `FencedWriter.prove_log_ends`."""
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    topics = counters.topics
    outputs = {
        topic: Output(topic, 0, [(None, b"probe/0", 0)], ())
        for topic in (topics.events, topics.outcomes, topics.deferred)
    }
    probe = HangingTransaction(
        topics.transactional_id(0), topics.group, outputs, TopicPartition(topics.commands, 0, 5)
    )
    probe.write(counters.connection, client, (), outputs)
    counters.send(*increment_commands(5, first=5))
    run_plan(counters.plan())
    counters.check()


#: Visible and hidden parts of a transaction that resubmits a deferred command.
RESUBMISSION_PARTS: dict[str, tuple[list[str], list[str]]] = {
    "command missing": (["deferred", "position"], ["commands"]),
    "entry visible": (["deferred"], ["commands", "position"]),
    "entry missing": (["commands", "position"], ["deferred"]),
    "command alone": ([], ["commands"]),
    "nothing visible": ([], ["commands", "deferred", "position"]),
}


@pytest.mark.covers("deferred-once")
@pytest.mark.parametrize(
    "case", sample_cases(RESUBMISSION_PARTS, "command missing", "entry visible", "entry missing")
)
def test_half_a_resubmission_is_resolved(counters: TopicHarness, client: RawClient, case: str) -> None:
    """If the transaction is aborted, the command stays deferred."""
    visible, hidden = RESUBMISSION_PARTS[case]
    due = rfc3339(time.time_ns() // 1_000_000 + 30_000)  # within the tolerance of the clocks
    counters.send(command("counter.Increment", "b", "later", {"by": 1}, notbefore=due))
    run_plan(counters.plan())
    resubmit_hanging(counters, client, visible, hidden)
    with short_read_timeout(), running_owners(counters.plan()) as owner:
        assert owner.error() is None
        (note,) = owner.notes()
    assert "KAFKA-20734" in note and ("it is committed" in note) is bool(visible)
    statuses = [outcome.data.status for outcome in counters.outcomes()]
    assert statuses == ["deferred", *(["accepted"] if visible else [])]
    assert counters.violations() == []
