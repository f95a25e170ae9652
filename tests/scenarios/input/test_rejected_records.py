"""A record that the broker refuses, or that is too large to decide, fails alone. The other records are decided."""

import os

import pytest

from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import CommandRecord, command, increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, running_owners

pytestmark = pytest.mark.kafka


def set_record_limit(harness: TopicHarness, kind: Kind, size: int) -> None:
    """Lower the largest record size that a topic accepts."""
    harness.configure(kind, "max.message.bytes", str(size))


def incompressible_text(size: int) -> str:
    """Return text that does not compress well."""
    return os.urandom(size // 2).hex()


@pytest.mark.covers("all-or-none")
def test_refused_record_ends_the_run(bank: TopicHarness) -> None:
    accounts = [n for n in range(60) if bank.partition_of(f"a{n}") == 0]
    owners = {accounts[20]: incompressible_text(20_000)}
    bank.send(
        *(command("bank_account.Open", f"a{n}", "o", {"owner": owners.get(n, "ann")}) for n in accounts)
    )
    plan = bank.plan()
    set_record_limit(bank, "events", 3000)
    error = run_plan_for_error(plan)
    assert error and error.exit_code == 1
    assert "offset 20 cannot be decided" in error.message
    assert error.hint.endswith("cqrs run --fail bank_account:0@20")
    assert [outcome.data.offset for outcome in bank.outcomes()] == list(range(20))
    assert bank.position_and_claim()[0] == 20
    set_record_limit(bank, "events", 1_048_588)
    run_plan(bank.plan(fail=["bank_account:0@20"]))
    verdicts = [(outcome.data.status, outcome.data.reason) for outcome in bank.outcomes()]
    assert verdicts.pop(20) == ("failed", "TOO_LARGE")
    assert {status for status, _ in verdicts} == {"accepted"}


@pytest.mark.covers("bad-input")
def test_refused_dead_letter_loses_its_bytes(counters: TopicHarness) -> None:
    small_records = [CommandRecord(os.urandom(500), b"a")] * 20
    counters.send(
        *increment_commands(3),
        CommandRecord(os.urandom(9000), b"a"),
        *small_records,
        *increment_commands(3, first=3),
    )
    plan = counters.plan()
    set_record_limit(counters, "dead-letters", 2000)
    with running_owners(plan) as owner:
        assert owner.error() is None
    assert any("offset 3 failed; its dead letter omits the command's bytes" in note for note in owner.notes())
    assert counters.decided_offsets() == list(range(27))
    dead_letter, *other_dead_letters = counters.records("dead-letters")
    assert [record.value for record in other_dead_letters] == [record.value for record in small_records]
    assert dead_letter.value is None and dict(dead_letter.headers or [])["cqrs.reason"] == b"TOO_LARGE"
    set_record_limit(counters, "dead-letters", 1_114_124)
    assert counters.violations() == []


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"a", bytes(65 * 1024 * 1024)),
        (bytes(65 * 1024 * 1024), b"x"),
        (incompressible_text(1_900_000).encode(), b"x"),
    ],
    ids=["value", "key", "key that packs badly"],
)
def test_a_decompression_bomb_fails_alone(counters: TopicHarness, key: bytes, value: bytes) -> None:
    counters.send(*increment_commands(2))
    compressing_producer = producer(
        counters.connection,
        compression_type="zstd",
        message_max_bytes=2**27,
        queue_buffering_max_kbytes=2**17,
    )
    compressing_producer.produce(counters.topics.commands, value, key, 0)
    assert compressing_producer.flush(30) == 0
    counters.send(*increment_commands(2, first=2))
    run_plan(counters.plan())
    statuses = [outcome.data.status for outcome in counters.outcomes()]
    assert statuses == ["accepted", "accepted", "failed", "accepted", "accepted"]
    assert counters.violations() == []
