"""Payloads against a real broker: sent, decided, read by every reader, and lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Composed
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import send_one
from cqrs_cli.core.messages.payload_reference import find_reference
from cqrs_cli.payloads.place import PayloadUnavailableError
from tests.payloads.stores import FolderStore
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka

#: An owner's name that no record of the bank would hold.
LARGE = "Ada " * 500


class Bank:
    """A bank with a payload store."""

    def __init__(self, harness: TopicHarness, store: FolderStore) -> None:
        harness.connection = replace(harness.connection, payloads=store.place)
        self.harness, self.store, self.folder = harness, store, harness.topics.events.rpartition(".")[0]

    def composed(self, subject: str, command: str, *fields: str) -> Composed:
        return compose(self.harness.aggregate, subject, command, fields)

    def send(self, subject: str, command: str, *fields: str) -> None:
        with CommandProducer(self.harness.connection, "murmur2") as producer:
            send_one(producer, self.harness.topics, self.composed(subject, command, *fields))

    def decide(self) -> list[str]:
        """Let an owner work: the status of each outcome so far, the reason where it failed."""
        quietly(self.harness.plan())
        verdicts = [outcome.data for outcome in self.harness.outcomes()]
        return [str(verdict.reason if verdict.status == "failed" else verdict.status) for verdict in verdicts]


@pytest.fixture
def bank(single_bank: TopicHarness, tmp_path: Path) -> Bank:
    return Bank(single_bank, FolderStore(tmp_path / "payloads"))


@pytest.mark.pins("payloads")
def test_large_command_travels_by_reference(bank: Bank) -> None:
    bank.send("ada", "Open", f"owner={LARGE}")
    bank.send("ada", "Deposit", "amount:=5")
    large, small = bank.harness.records("commands")
    assert find_reference(small.value) is None
    reference = find_reference(large.value)
    assert reference is not None and len(large.value or b"") < 1024
    assert bank.store.file(reference, bank.folder).exists()
    assert bank.decide() == ["accepted", "accepted"]
    assert bank.harness.violations() == []


@pytest.mark.pins("payloads")
def test_lost_payload_fails_its_command_alone(bank: Bank) -> None:
    for subject in ("lost", "altered", "silent", "good"):
        bank.send(subject, "Open", f"owner={subject}{LARGE}")
    lost, altered, silent, _ = (find_reference(each.value) for each in bank.harness.records("commands"))
    assert lost and altered and silent
    bank.store.lose(lost, bank.folder)
    bank.store.alter(altered, bank.folder)
    bank.store.withhold(silent, bank.folder)
    assert bank.decide() == ["PAYLOAD_UNAVAILABLE"] * 3 + ["accepted"]
    assert len(bank.harness.records("dead-letters")) == 3
    assert bank.harness.violations() == []


def test_command_is_not_sent_without_its_payload(bank: Bank) -> None:
    bank.store.path.write_text("a file where the folder should be")
    with pytest.raises(PayloadUnavailableError, match="could not be stored"):
        bank.send("ada", "Open", f"owner={LARGE}")
    assert bank.harness.records("commands") == []
