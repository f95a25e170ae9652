"""The doctor's checks of the keyring, and of the keys under its KEKs."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.doctor.check import run_check
from cqrs_cli.doctor.keys import check_keks, check_keyring
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, create_extra
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import key_value


def run_checks(
    address: KeyRingAddress | None, runs: bool = True, *personal: str
) -> list[tuple[str, str, int]]:
    checks = run_check("keys", lambda: check_keyring(address, personal, runs))
    return [(check.status, check.detail, check.exit_code) for check in checks]


@pytest.fixture
def address(tmp_path: Path) -> KeyRingAddress:
    """A keyring with two KEKs."""
    keks = {name: b64encode(bytes([number]) * 64).decode() for number, name in enumerate(("new", "old"))}
    (tmp_path / "keys.json").write_text(json.dumps(keks))
    (tmp_path / "keys.json").chmod(0o600)
    return KeyRingAddress("file:keys.json", tmp_path)


def test_keyring_is_reported_without_its_keys(address: KeyRingAddress) -> None:
    ((status, detail, _),) = run_checks(address)
    assert (status, detail) == ("ok", "file:keys.json has the key-encryption key new, and 1 older")


def test_readable_keyring_file_is_a_warning(address: KeyRingAddress) -> None:
    (address.root / "keys.json").chmod(0o644)
    ((status, detail, code),) = run_checks(address)
    assert (status, code) == ("warn", 0) and "every user of this machine may read" in detail


def test_runs_need_the_keyring() -> None:
    assert run_checks(None) == []
    ((status, detail, code),) = run_checks(None, True, "customer", "order")
    assert (status, code) == ("fail", 3)
    assert detail.startswith("customer, order: personal fields, and no keyring is set")
    ((status, _, code),) = run_checks(None, False, "customer")
    assert (status, code) == ("warn", 0)


def test_missing_keyring_fails(tmp_path: Path) -> None:
    ((status, detail, code),) = run_checks(KeyRingAddress("file:none.json", tmp_path))
    assert (status, code) == ("fail", 3) and "none.json cannot be read" in detail


@pytest.mark.kafka
def test_missing_kek_fails(connection: Connection, prefix: str) -> None:
    topics, old, new = Topics("customer", prefix), Keyring({"old": bytes(64)}), Keyring({"new": bytes(64)})

    def check_kek_usage(keyring: Keyring) -> list[tuple[str, str, int]]:
        checks = run_check("keys", lambda: check_keks(connection, topics, keyring))
        return [(check.status, check.detail, check.exit_code) for check in checks]

    with Admin(connection) as admin:
        create_extra(admin, topics, "keys", 1)
    assert check_kek_usage(new) == [("ok", "customer: 0 keys", 0)]
    producer = clients.producer(connection)
    wrapped = old.wrap(topics.keys, "c-42", DataKey.of_random(bytes(72)))
    producer.produce(topics.keys, key_value(wrapped), "c-42", 0)
    producer.flush(20)
    assert check_kek_usage(old) == [("ok", "customer: 1 key, 1 under old", 0)]
    detail = f"keys of {topics.keys} are under the key-encryption key 'old', which is not in the keyring"
    assert check_kek_usage(new) == [("fail", detail, 5)]
