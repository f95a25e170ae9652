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
def keyring_file(cqrs: Cqrs) -> Path:
    """The file that `keyring` of the project names."""
    Path("cqrs.toml").write_text('keyring = "file:keys.json"\n')
    return Path("keys.json").absolute()


def secret_keys(keyring_file: Path) -> list[str]:
    return list(json.loads(keyring_file.read_text()).values())


def test_init_creates_a_keyring_once(cqrs: Cqrs, keyring_file: Path) -> None:
    result = cqrs("keys", "init", "-o", "json")
    (name,) = load_keyring(f"file:{keyring_file}").names
    assert result.status == 0
    assert result.document == {"result": "made", "place": f"file:{keyring_file}", "master": name}
    second_init = cqrs("keys", "init")
    assert (second_init.status, second_init.out) == (3, "")
    assert "keys.json exists" in second_init.err and "cqrs keys rotate" in second_init.err
    assert not any(secret in result.out + second_init.err for secret in secret_keys(keyring_file))


def test_rotate_adds_a_current_kek(cqrs: Cqrs, keyring_file: Path) -> None:
    assert cqrs("keys", "rotate").status == 3
    cqrs("keys", "init")
    result = cqrs("keys", "rotate")
    current_kek, old_kek = load_keyring(f"file:{keyring_file}").names
    assert result.status == 0 and current_kek == f"{old_kek}-2"
    assert f"{current_kek} is the current key-encryption key" in result.out
    assert "cqrs keys status" in result.out
    assert not any(secret in result.out for secret in secret_keys(keyring_file))


@pytest.mark.parametrize("command", ["init", "rotate"])
def test_other_keyrings_are_changed_by_hand(
    cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CQRS_KEYRING", "exec:tool --token hunter2")
    result = cqrs("keys", command)
    assert result.status == 0 and "exec:tool … is not a file" in result.out
    assert "hunter2" not in result.out + result.err
    document = cqrs("keys", command, "-o", "json").document
    assert document["result"] == "by hand" and "KEY IN BASE64" in document["form"]


@pytest.mark.parametrize("command", ["init", "rotate"])
def test_keyring_must_be_set(cqrs: Cqrs, command: str) -> None:
    result = cqrs("keys", command)
    assert result.status == 3 and 'keyring = "file:' in result.err


def test_without_personal_fields_nothing_is_counted(cqrs: Cqrs) -> None:
    result = cqrs("keys", "status", "-o", "json", connect=lambda cli: None)
    assert (result.status, result.document["masters"]) == (0, [])
    assert "no aggregate has personal fields" in result.err


@pytest.fixture
def cqrs_with_rotated_keyring(
    cqrs_on_broker: Cqrs, connection: Connection, prefix: str, keyring_file: Path
) -> Cqrs:
    """`cqrs` on a topic with a key under each of two KEKs. The keyring was rotated."""
    topics = Topics("bank_account", prefix)
    cqrs_on_broker("keys", "init")
    old_keyring = load_keyring(f"file:{keyring_file}")
    cqrs_on_broker("keys", "rotate")
    with Admin(connection) as admin:
        create_extra(admin, topics, "keys", 2)
    write_wrapped_key(connection, topics, "a", old_keyring)
    write_wrapped_key(connection, topics, "b", load_keyring(f"file:{keyring_file}"))
    return cqrs_on_broker


def write_wrapped_key(connection: Connection, topics: Topics, subject: str, keyring: Keyring) -> None:
    producer = clients.producer(connection)
    wrapped_key = keyring.wrap(topics.keys, subject, DataKey.of_random(bytes(72)))
    producer.produce(topics.keys, key_value(wrapped_key), subject, 0)
    assert producer.flush(20) == 0


@pytest.mark.kafka
def test_status_counts_keys_by_kek(
    cqrs_with_rotated_keyring: Cqrs, connection: Connection, prefix: str, keyring_file: Path
) -> None:
    current_kek, old_kek = load_keyring(f"file:{keyring_file}").names
    document = cqrs_with_rotated_keyring("keys", "status", "bank_account", "-o", "json").document
    row = {"aggregate": "bank_account", "keys": 1, "replaced": 0}
    assert document == {
        "ring": [current_kek, old_kek],
        "masters": [
            {**row, "master": current_kek, "state": "current"},
            {**row, "master": old_kek, "state": "old"},
        ],
        "not_needed": [],
    }
    write_wrapped_key(connection, Topics("bank_account", prefix), "a", load_keyring(f"file:{keyring_file}"))
    document = cqrs_with_rotated_keyring("keys", "status", "bank_account", "-o", "json").document
    assert [(kek["keys"], kek["replaced"]) for kek in document["masters"]] == [(2, 0), (0, 1)]
    assert document["not_needed"] == []


@pytest.mark.kafka
def test_status_names_unused_keks(cqrs_with_rotated_keyring: Cqrs, keyring_file: Path) -> None:
    keks = json.loads(keyring_file.read_text())
    keyring_file.write_text(json.dumps({**keks, "older": keks.popitem()[1]}))
    assert cqrs_with_rotated_keyring("keys", "status", "bank_account", "-o", "json").document[
        "not_needed"
    ] == ["older"]


@pytest.mark.kafka
def test_missing_kek_exits_5(cqrs_with_rotated_keyring: Cqrs, keyring_file: Path) -> None:
    keks = json.loads(keyring_file.read_text())
    current_kek, old_kek = keks
    keyring_file.write_text(json.dumps({current_kek: keks[current_kek]}))
    result = cqrs_with_rotated_keyring("keys", "status", "bank_account")
    assert (
        result.status == 5
        and f"under the key-encryption key '{old_kek}', which is not in the keyring" in result.err
    )
    assert "not in the keyring" in result.out
