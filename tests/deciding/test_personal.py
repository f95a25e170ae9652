"""Personal fields on a real broker: owners encrypt all written values with keys that they restore until they end."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.json import decode

from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.address import KeyRingAddress
from tests.deciding.customers import (
    CUSTOMER_STATE,
    PERSONAL_TEXT,
    REDACTED_STATE,
    customer_topics,
    decrypted_states,
    erase_command,
    event_envelopes,
    files_with_personal_data,
    key_records,
    register_command,
)
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return customer_topics(connection, prefix, tmp_path)


def remove_key_cache(harness: TopicHarness) -> None:
    """Remove the key cache of the shard."""
    shutil.rmtree(harness.shard_path().with_name("0.keys"))


def test_stored_values_are_encrypted(harness: TopicHarness) -> None:
    harness.send(register_command("c-1"), register_command("c-2"), register_command("c-1", 1))
    run_plan(harness.plan())
    assert not any(PERSONAL_TEXT.encode() in (record.value or b"") for record in harness.records("events"))
    assert not list(files_with_personal_data(harness.folder))
    assert decrypted_states(harness) == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}
    [(subject, wrapped), (other, _)] = key_records(harness)
    assert (subject, other) == ("c-1", "c-2") and wrapped is not None
    assert harness.connection.keys is not None
    key = harness.connection.keys.load().unwrap(harness.topics.keys, "c-1", wrapped)
    for event in (event_envelopes(harness)[0], event_envelopes(harness)[2]):
        encrypted = bytes(read_members(event.data)["name"])
        assert (
            decode(key.decrypt(encrypted, ValueLocation("customer", "c-1", event.id, "name")))
            == PERSONAL_TEXT
        )


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("machine", ["state", "other"])
def test_next_run_uses_the_same_keys(harness: TopicHarness, cache: bool, machine: str) -> None:
    """The run has its key cache, has lost it, or is on a new machine."""
    harness.send(register_command("c-1"))
    run_plan(harness.plan())
    if not cache:
        remove_key_cache(harness)
    harness.send(register_command("c-1", 1), register_command("c-2"))
    run_plan(harness.plan(machine=machine))
    assert [subject for subject, _ in key_records(harness)] == ["c-1", "c-2"]
    assert decrypted_states(harness, machine) == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}


def test_erasing_ends_the_key(harness: TopicHarness) -> None:
    harness.send(register_command("c-1"), register_command("c-2"))
    run_plan(harness.plan())
    (_, wrapped), _ = key_records(harness)
    harness.send(erase_command("c-1"), erase_command("c-1", 1))
    run_plan(harness.plan())
    assert key_records(harness)[2:] == [("c-1", None)]
    assert [outcome.data.status for outcome in harness.outcomes()][2:] == ["accepted", "unchanged"]
    erased = event_envelopes(harness)[-1]
    assert wrapped is not None and decode(erased.data) == {"key": wrapped.kid}
    assert decrypted_states(harness) == {"c-1": REDACTED_STATE, "c-2": CUSTOMER_STATE}
    harness.send(register_command("c-1", 1))
    run_plan(harness.plan(machine="other"))
    assert decrypted_states(harness, "other") == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}


def test_erased_customer_may_register_again(harness: TopicHarness) -> None:
    """In one batch, the key from before the erasure is never written."""
    harness.send(
        register_command("c-1"),
        erase_command("c-1"),
        register_command("c-1", 1),
        register_command("c-2"),
        erase_command("c-2"),
    )
    run_plan(harness.plan())
    assert [(subject, wrapped is None) for subject, wrapped in key_records(harness)] == [
        ("c-1", False),
        ("c-2", True),
    ]
    assert decrypted_states(harness) == {"c-1": CUSTOMER_STATE, "c-2": REDACTED_STATE}
    run_plan(harness.plan(machine="other"))
    assert decrypted_states(harness, "other") == {"c-1": CUSTOMER_STATE, "c-2": REDACTED_STATE}


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize(
    "point",
    [
        "flush.after",
        "commit.sent",
        "commit.after",
        "apply.before",
        "apply.inside",
        "apply.after",
        "recover.events",
    ],
)
def test_killed_owner_loses_no_key(harness: TopicHarness, point: str) -> None:
    harness.send(register_command("c-1"), register_command("c-2"))
    run_plan(harness.plan())
    harness.send(erase_command("c-1"), register_command("c-2", 1), register_command("c-3"))
    assert OwnerProcess(harness.plan(), f"{point}:1:kill", transaction_timeout=3.0).was_killed()
    run_plan(harness.plan())
    for machine in ("state", "other"):
        run_plan(harness.plan(machine=machine))
        assert decrypted_states(harness, machine) == {
            "c-1": REDACTED_STATE,
            "c-2": CUSTOMER_STATE,
            "c-3": CUSTOMER_STATE,
        }
    assert sorted(subject for subject, _ in key_records(harness)) == ["c-1", "c-1", "c-2", "c-3"]


def test_run_without_keyring_is_refused(harness: TopicHarness) -> None:
    connection, root = harness.connection, harness.folder
    for keyring_address, error in (
        (None, "no keyring is set"),
        (KeyRingAddress("file:gone.json", root), "cannot be read"),
    ):
        harness.connection = replace(connection, keys=keyring_address)
        with pytest.raises(ConfigurationError, match=error) as message:
            harness.plan()
        assert message.value.exit_code == 3


def test_lost_key_stops_the_owner(harness: TopicHarness) -> None:
    """A key's record was deleted by hand.

    An owner with a shard stops at the customer's next command. An owner without a shard stops in its recovery.
    """
    harness.send(register_command("c-1"), register_command("c-2"))
    run_plan(harness.plan())
    foreign_producer = producer(harness.connection)
    foreign_producer.produce(harness.topics.keys, None, b"c-1", 0)
    assert foreign_producer.flush(10) == 0
    run_plan(harness.plan())
    harness.send(register_command("c-1", 1))
    for machine in ("state", "other"):
        error = run_plan_for_error(harness.plan(machine=machine))
        assert isinstance(error, ContradictionError) and error.exit_code == 5
        assert "of customer 'c-1' is not in" in error.message
    assert [outcome.data.status for outcome in harness.outcomes()] == ["accepted"] * 2
