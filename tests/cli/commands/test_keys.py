"""`cqrs keys`: the keyring is created and rotated, and the keys under its KEKs are counted. No key is printed."""

import json
from pathlib import Path

import pytest

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, create_extra
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.keyring import Keyring, load_keyring
from cqrs_cli.keys.topic import key_value
from tests.cli.conftest import Cqrs


@pytest.fixture
def ring_file(cqrs: Cqrs) -> Path:
    """The file that `keyring` of the project names."""
    Path("cqrs.toml").write_text('keyring = "file:keys.json"\n')
    return Path("keys.json").absolute()


def secrets(ring_file: Path) -> list[str]:
    return list(json.loads(ring_file.read_text()).values())


def test_init_makes_a_ring_once(cqrs: Cqrs, ring_file: Path) -> None:
    result = cqrs("keys", "init", "-o", "json")
    (name,) = load_keyring(f"file:{ring_file}").names
    assert result.status == 0
    assert result.document == {"result": "made", "place": f"file:{ring_file}", "master": name}
    again = cqrs("keys", "init")
    assert (again.status, again.out) == (3, "")
    assert "keys.json exists" in again.err and "cqrs keys rotate" in again.err
    assert not any(secret in result.out + again.err for secret in secrets(ring_file))


def test_rotate_puts_a_master_key_first(cqrs: Cqrs, ring_file: Path) -> None:
    assert cqrs("keys", "rotate").status == 3
    cqrs("keys", "init")
    rotated = cqrs("keys", "rotate")
    now, before = load_keyring(f"file:{ring_file}").names
    assert rotated.status == 0 and now == f"{before}-2"
    assert f"{now} is the current key-encryption key" in rotated.out
    assert "cqrs keys status" in rotated.out
    assert not any(secret in rotated.out for secret in secrets(ring_file))


@pytest.mark.parametrize("command", ["init", "rotate"])
def test_other_places_are_changed_by_hand(cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("CQRS_KEYRING", "exec:tool --token hunter2")
    result = cqrs("keys", command)
    assert result.status == 0 and "exec:tool … is not a file" in result.out
    assert "hunter2" not in result.out + result.err
    document = cqrs("keys", command, "-o", "json").document
    assert document["result"] == "by hand" and "KEY IN BASE64" in document["form"]


@pytest.mark.parametrize("command", ["init", "rotate"])
def test_a_ring_must_be_set(cqrs: Cqrs, command: str) -> None:
    result = cqrs("keys", command)
    assert result.status == 3 and 'keyring = "file:' in result.err


def test_without_personal_fields_nothing_is_counted(cqrs: Cqrs) -> None:
    counted = cqrs("keys", "status", "-o", "json", connect=lambda cli: None)
    assert (counted.status, counted.document["masters"]) == (0, [])
    assert "no aggregate has personal fields" in counted.err


@pytest.fixture
def rotated(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, ring_file: Path) -> Cqrs:
    """`cqrs` on a topic with a key under each of two KEKs. The keyring was rotated."""
    topics = Topics("bank_account", prefix)
    cqrs_on_broker("keys", "init")
    old = load_keyring(f"file:{ring_file}")
    cqrs_on_broker("keys", "rotate")
    with Admin(connection) as admin:
        create_extra(admin, topics, "keys", 2)
    wrap(connection, topics, "a", old)
    wrap(connection, topics, "b", load_keyring(f"file:{ring_file}"))
    return cqrs_on_broker


def wrap(connection: Connection, topics: Topics, subject: str, keyring: Keyring) -> None:
    producer = clients.producer(connection)
    wrapped = keyring.wrap(topics.keys, subject, DataKey.of_random(bytes(72)))
    producer.produce(topics.keys, key_value(wrapped), subject, 0)
    assert producer.flush(20) == 0


@pytest.mark.kafka
def test_status_counts_by_master_key(
    rotated: Cqrs, connection: Connection, prefix: str, ring_file: Path
) -> None:
    now, before = load_keyring(f"file:{ring_file}").names
    counted = rotated("keys", "status", "bank_account", "-o", "json").document
    row = {"aggregate": "bank_account", "keys": 1, "replaced": 0}
    assert counted == {
        "ring": [now, before],
        "masters": [{**row, "master": now, "state": "current"}, {**row, "master": before, "state": "old"}],
        "not_needed": [],
    }
    wrap(connection, Topics("bank_account", prefix), "a", load_keyring(f"file:{ring_file}"))
    counted = rotated("keys", "status", "bank_account", "-o", "json").document
    assert [(kek["keys"], kek["replaced"]) for kek in counted["masters"]] == [(2, 0), (0, 1)]
    assert counted["not_needed"] == []


@pytest.mark.kafka
def test_status_names_what_nothing_needs(rotated: Cqrs, ring_file: Path) -> None:
    keks = json.loads(ring_file.read_text())
    ring_file.write_text(json.dumps({**keks, "older": keks.popitem()[1]}))
    assert rotated("keys", "status", "bank_account", "-o", "json").document["not_needed"] == ["older"]


@pytest.mark.kafka
def test_lacking_master_key_exits_5(rotated: Cqrs, ring_file: Path) -> None:
    keks = json.loads(ring_file.read_text())
    now, before = keks
    ring_file.write_text(json.dumps({now: keks[now]}))
    result = rotated("keys", "status", "bank_account")
    assert (
        result.status == 5
        and f"under the key-encryption key '{before}', which is not in the keyring" in result.err
    )
    assert "not in the keyring" in result.out
