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
from cqrs_cli.errors import ContradictionError
from cqrs_cli.jobs.verify.driver import plan_verify, verify_in_process
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.state.store import WriteBatch
from tests.jobs.verify.customers import RING_FILE, customers, decide, erased, put_key, registered, remake_keys
from tests.jobs.verify.verification import call, certified, shard
from tests.proof.encrypted_histories import key
from tests.support import ROOT
from tests.support.foreign_records import edited, rewrite
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


@pytest.fixture
def told(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, and Bob was not."""
    harness = customers(connection, prefix, tmp_path)
    decide(harness, registered("ann", "Ann"), registered("bob", "Bob"), erased("ann"))
    (tmp_path / "ring.json").write_text(RING_FILE)
    return harness


def with_ring(harness: TopicHarness) -> TopicHarness:
    harness.connection = replace(harness.connection, keys=KeyRingAddress("file:ring.json", harness.folder))
    return harness


@pytest.mark.covers("verifiable")
def test_erased_customers_are_proved(told: TopicHarness) -> None:
    assert told.violations() == []
    assert with_ring(told).violations() == []


def test_seals_are_proved_without_code(told: TopicHarness) -> None:
    settings = told.settings.model_copy(update={"aggregates": "nowhere"})
    assert verify_in_process(plan_verify(told.connection, told.topics, settings)).violations == []


@pytest.mark.covers("verifiable")
def test_lost_key_is_found(told: TopicHarness) -> None:
    put_key(told, "bob", None)
    (violation,) = told.violations()
    assert "the key is lost, and it was not erased; nothing heals that" in violation


def test_key_put_back_is_found(told: TopicHarness) -> None:
    put_key(told, "ann", key(1))
    (violation,) = told.violations()
    offset = told.records("events")[2].offset
    assert (
        f"{told.topics.events} partition 0 offset {offset} is behind the end of key {key(1).kid} of 'ann'"
        in violation
    )


def test_keys_topic_that_is_gone(told: TopicHarness) -> None:
    """All keys in force are lost then."""
    remake_keys(told)
    assert len(told.violations()) == 1


def test_damaged_value_is_found(told: TopicHarness) -> None:
    """Only the keyring can show the damage, because the form of the values is valid."""

    def swap(log: list[Record]) -> None:
        data = json.loads(log[1].value or b"")["data"]
        log[1] = edited(log[1], {"name": data["mail"], "mail": data["name"]})

    rewrite(told, "events", swap)
    assert told.violations() == []
    (mail, name) = with_ring(told).violations()
    assert "has a damaged value in 'name': it does not open" in name and "'mail'" in mail


def test_ring_lacks_a_key_in_force(told: TopicHarness) -> None:
    (told.folder / "ring.json").write_text(RING_FILE.replace("2026-11", "2027-11"))
    with pytest.raises(
        ContradictionError, match="the key-encryption key '2026-11', which is not in the keyring"
    ):
        with_ring(told).violations()


def test_record_that_is_no_key(told: TopicHarness) -> None:
    producer = clients.producer(told.connection)
    producer.produce(told.topics.keys, b"?", b"bob", 0)
    assert producer.flush(30) == 0
    with pytest.raises(ContradictionError, match="partition 0 offset 2 is not a key"):
        told.violations()


def test_shards_are_compared_masked(told: TopicHarness) -> None:
    quietly(with_ring(told).plan())
    assert told.violations("state") == []


@pytest.mark.parametrize(
    ("name", "found"),
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
def test_seals_of_a_shard_are_judged(told: TopicHarness, name: bytes, found: str) -> None:
    quietly(with_ring(told).plan())
    with shard(told) as store:
        saved, positions = dict(store.items())["bob"], store.positions()
        state = write_members({**read_members(saved.state), "name": Raw(name)})
        store.apply(
            WriteBatch(store.token(), positions, positions, {"bob": replace_struct(saved, state=state)})
        )
    (violation,) = told.violations("state")
    assert found in violation


@pytest.mark.covers("certified")
def test_erasure_changes_no_certificate(told: TopicHarness) -> None:
    """An erasure changes no certificate, because the compacted keys topic is not certified."""
    before = certified(told).certificate
    put_key(told, "bob", None)
    now = certified(told, before)
    assert (now.changes, now.checked) == ([], 9)


@pytest.mark.covers("verifiable")
def test_command_names_what_is_left(told: TopicHarness) -> None:
    code = told.folder / "project" / "aggregates"
    code.mkdir(parents=True)
    (code.parent / "cqrs.toml").touch()
    (code / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "core" / "personal" / "customer.py", code)
    clean = call(told, "verify", "customer", "--erased")
    assert clean.returncode == 0, clean.stderr
    assert "customer: verified 1 erased aggregate" in clean.stdout and "no violation" in clean.stdout
    assert f"1 record of {told.topics.commands} with the values as sent" in clean.stdout
    put_key(told, "ann", key(1))
    result = call(told, "verify", "customer", "--erased", "-o", "json")
    document = json.loads(result.stdout)
    assert (result.returncode, document["erased"], document["violation_count"]) == (5, 1, 1)
    assert f"is key {key(1).kid} of 'ann', which was deleted" in document["violations"][0]
    assert "erased data of customer still exists" in result.stderr
