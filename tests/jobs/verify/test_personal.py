"""Verifying customers in real topics and their keys, with the keyring and without it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace as replace_struct

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.jobs.verify.driver import verify_in_process
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.scans.verify.plan import plan_verify
from cqrs_cli.state.store import WriteBatch
from tests.jobs.verify.customers import (
    KEYRING_JSON,
    customer_harness,
    decide,
    erase_command,
    put_key,
    recreate_keys_topic,
    register_command,
)
from tests.jobs.verify.verification import certify, open_shard_0, run_cqrs
from tests.proof.encrypted_histories import key
from tests.support import ROOT
from tests.support.foreign_records import changed_record, rewrite_topic
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


@pytest.fixture
def customers(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, and Bob was not."""
    harness = customer_harness(connection, prefix, tmp_path)
    decide(harness, register_command("ann", "Ann"), register_command("bob", "Bob"), erase_command("ann"))
    (tmp_path / "ring.json").write_text(KEYRING_JSON)
    return harness


def with_keyring(harness: TopicHarness) -> TopicHarness:
    harness.connection = replace(harness.connection, keys=KeyRingAddress("file:ring.json", harness.folder))
    return harness


@pytest.mark.covers("verifiable")
def test_erased_customers_have_no_violation(customers: TopicHarness) -> None:
    assert customers.violations() == []
    assert with_keyring(customers).violations() == []


def test_encrypted_values_verify_without_code(customers: TopicHarness) -> None:
    settings = customers.settings.model_copy(update={"aggregates": "nowhere"})
    assert verify_in_process(plan_verify(customers.connection, customers.topics, settings)).violations == []


@pytest.mark.covers("verifiable")
def test_lost_key_is_found(customers: TopicHarness) -> None:
    put_key(customers, "bob", None)
    (violation,) = customers.violations()
    assert "the key is lost, and it was not erased; no command can restore it" in violation


def test_key_put_back_is_found(customers: TopicHarness) -> None:
    put_key(customers, "ann", key(1))
    (violation,) = customers.violations()
    offset = customers.records("events")[2].offset
    assert (
        f"{customers.topics.events} partition 0 offset {offset} is after the deletion of key {key(1).kid} of 'ann'"
        in violation
    )


def test_recreated_keys_topic_is_one_violation(customers: TopicHarness) -> None:
    """A recreated keys topic has lost all keys in use."""
    recreate_keys_topic(customers)
    assert len(customers.violations()) == 1


def test_damaged_value_is_found(customers: TopicHarness) -> None:
    """Only the keyring can show the damage, because the form of the values is valid."""

    def swap(log: list[Record]) -> None:
        data = json.loads(log[1].value or b"")["data"]
        log[1] = changed_record(log[1], {"name": data["mail"], "mail": data["name"]})

    rewrite_topic(customers, "events", swap)
    assert customers.violations() == []
    (mail, name) = with_keyring(customers).violations()
    assert "has a damaged value in 'name'" in name and "does not decrypt it" in name and "'mail'" in mail


def test_keyring_without_needed_key_is_named(customers: TopicHarness) -> None:
    (customers.folder / "ring.json").write_text(KEYRING_JSON.replace("2026-11", "2027-11"))
    (violation,) = with_keyring(customers).violations()
    assert "the key-encryption key '2026-11', which is not in the keyring" in violation


@pytest.mark.covers("verifiable")
def test_invalid_key_record_is_found(customers: TopicHarness) -> None:
    producer = clients.producer(customers.connection)
    producer.produce(customers.topics.keys, b"?", b"bob", 0)
    assert producer.flush(30) == 0
    lost_key, invalid_key = customers.violations()
    assert (
        f"{customers.topics.keys} partition 0 offset 2 is not a key: " in invalid_key
        and "is lost" in lost_key
    )


def test_shards_are_compared_redacted(customers: TopicHarness) -> None:
    run_plan(with_keyring(customers).plan())
    assert customers.violations("state") == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'"Bob"', "leaves 'bob' in a shard that has a plain value in the personal field 'name'"),
        (key(9).encrypt(b'"Bob"', ValueLocation("customer", "bob", "state", "name")), "which no event names"),
        (key(1).encrypt(b'"Bob"', ValueLocation("customer", "bob", "state", "name")), "which no event names"),
        (
            key(2).encrypt(b'"Bob"', ValueLocation("customer", "ann", "state", "name")),
            "has a damaged value in 'name'",
        ),
    ],
)
def test_wrong_encrypted_values_in_shards_are_found(
    customers: TopicHarness, value: bytes, message: str
) -> None:
    run_plan(with_keyring(customers).plan())
    with open_shard_0(customers) as store:
        stored, positions = dict(store.items())["bob"], store.positions()
        state = write_members({**read_members(stored.state), "name": Raw(value)})
        store.apply(
            WriteBatch(store.token(), positions, positions, {"bob": replace_struct(stored, state=state)})
        )
    (violation,) = customers.violations("state")
    assert message in violation


@pytest.mark.covers("certified")
def test_erasure_changes_no_certificate(customers: TopicHarness) -> None:
    """An erasure changes no certificate, because the compacted keys topic is not certified."""
    before = certify(customers).certificate
    put_key(customers, "bob", None)
    after = certify(customers, before)
    assert (after.changes, after.checked_count) == ([], 9)


@pytest.mark.covers("verifiable")
def test_command_names_remaining_data(customers: TopicHarness) -> None:
    code = customers.folder / "project" / "aggregates"
    code.mkdir(parents=True)
    (code.parent / "cqrs.toml").touch()
    (code / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "core" / "personal" / "customer.py", code)
    clean = run_cqrs(customers, "verify", "customer", "--erased")
    assert clean.returncode == 0, clean.stderr
    assert "customer: verified 1 erased aggregate" in clean.stdout and "no violation" in clean.stdout
    assert f"1 record of {customers.topics.commands} with the values as sent" in clean.stdout
    put_key(customers, "ann", key(1))
    result = run_cqrs(customers, "verify", "customer", "--erased", "-o", "json")
    document = json.loads(result.stdout)
    assert (result.returncode, document["erased"], document["violation_count"]) == (5, 1, 1)
    assert f"is key {key(1).kid} of 'ann', which was deleted" in document["violations"][0]
    assert "erased data of customer still exists" in result.stderr
