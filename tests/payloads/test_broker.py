"""Payloads on a real broker: sent, decided, and lost."""

import pytest

from cqrs_cli.core.messages.payload_reference import find_reference
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.status.aggregates import aggregate_statuses
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.telemetry.status_file import read_status
from tests.payloads.bank import LARGE_NAME, Bank, account_history, open_large_account, running_supervisor
from tests.payloads.stores import EACH_STORE
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("payloads")
@EACH_STORE
def test_large_command_travels_by_reference(bank: Bank) -> None:
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    bank.send("ada", "Deposit", "amount:=5")
    large, small = bank.harness.records("commands")
    assert find_reference(small.value) is None
    reference = find_reference(large.value)
    assert reference is not None and len(large.value or b"") < 1024
    assert bank.store.file(reference, bank.folder).exists()
    assert bank.decide() == ["accepted", "accepted"]
    assert bank.harness.violations() == []


@pytest.mark.covers("payloads")
@EACH_STORE
def test_lost_payload_fails_only_its_command(bank: Bank) -> None:
    for subject in ("lost", "altered", "silent", "good"):
        bank.send(subject, "Open", f"owner={subject}{LARGE_NAME}")
    lost, altered, silent, _ = (find_reference(record.value) for record in bank.harness.records("commands"))
    assert lost and altered and silent
    bank.store.delete(lost, bank.folder)
    bank.store.alter(altered, bank.folder)
    bank.store.block_reads(silent, bank.folder)
    assert bank.decide() == ["PAYLOAD_UNAVAILABLE"] * 3 + ["accepted"]
    assert len(bank.harness.records("dead-letters")) == 3
    assert bank.harness.violations() == []


@EACH_STORE
def test_command_is_not_sent_without_its_payload(bank: Bank) -> None:
    bank.store.reject_requests()
    with pytest.raises(PayloadUnavailableError, match="could not be stored"):
        bank.send("ada", "Open", f"owner={LARGE_NAME}")
    assert bank.harness.records("commands") == []


@pytest.mark.covers("payloads")
@EACH_STORE
def test_large_event_travels_by_reference(bank: Bank) -> None:
    """A large event's payload is stored before the event, and all readers download it."""
    reference = open_large_account(bank, "ada")
    assert bank.store.file(reference, bank.folder).exists()
    assert len(bank.events()[0].value or b"") < 1024
    assert f"ada{LARGE_NAME}" in repr(account_history(bank, "ada").state)
    bank.send("ada", "Deposit", "amount:=5")
    assert bank.decide("another") == ["accepted", "accepted"]
    assert bank.harness.violations("another") == []


@pytest.mark.covers("payloads")
@EACH_STORE
def test_lost_event_stops_every_reader(bank: Bank) -> None:
    """An owner that needs an event without its payload decides nothing. Readers of other aggregates continue."""
    reference = open_large_account(bank, "ada")
    open_large_account(bank, "bob")
    bank.store.alter(reference, bank.folder)
    bank.send("bob", "Deposit", "amount:=5")
    with running_supervisor(bank, "new") as supervisor:
        eventually(lambda: any("altered" in note for note in supervisor.notes))
    assert len(bank.harness.outcomes()) == 2
    assert account_history(bank, "bob").version == 1
    with pytest.raises(PayloadUnavailableError, match=reference.sha256):
        account_history(bank, "ada")


def partition_status(bank: Bank) -> PartitionStatus:
    """Return the partition's status as `cqrs status` shows it."""
    harness = bank.harness
    (status,) = aggregate_statuses(harness.connection, harness.topics, harness.folder / "state")
    return status


@pytest.mark.covers("payloads")
@EACH_STORE
def test_event_waits_for_its_payload(bank: Bank) -> None:
    """While the payload store refuses writes, nothing is committed. Later the command is decided once.

    The status names the reason.
    """
    bank.send_inline("ada", "Open", f"owner=ada{LARGE_NAME}")
    bank.store.reject_requests()
    with running_supervisor(bank, "state"):

        def blocked() -> str:
            return read_status(bank.harness.shard_path()).blocked

        assert "could not be stored" in eventually(blocked)
        assert partition_status(bank).wait_reason == blocked()
        assert bank.events() == [] and bank.harness.outcomes() == []
        bank.store.accept_requests()
        eventually(lambda: bank.harness.outcomes())
        eventually(lambda: not blocked())
    assert bank.decide() == ["accepted"]
    assert bank.harness.violations("state") == []
