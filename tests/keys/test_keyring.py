"""The keyring is read from its location, and errors contain no part of a key."""

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.keys.keyring import Keyring, load_keyring, parse_keyring

OLD, NEW = bytes(range(64)), bytes(range(32))
KEY = DataKey.of_random(bytes(range(72)))


def document(**masters: bytes) -> str:
    return json.dumps({name: b64encode(master).decode() for name, master in masters.items()})


BOTH = document(new=NEW, old=OLD)


def assert_is_new_keyring(keyring: Keyring) -> None:
    wrapped = keyring.wrap("customer.keys", "c-42", KEY)
    assert wrapped.master == keyring.current == "new"
    assert keyring.unwrap("customer.keys", "c-42", wrapped).secret == KEY.secret


def test_file_is_relative_to_the_root(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(BOTH)
    assert_is_new_keyring(load_keyring("file:keys.json", tmp_path))
    assert_is_new_keyring(load_keyring(f"file:{tmp_path}/keys.json"))


def test_variable_has_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEYS", BOTH)
    assert_is_new_keyring(load_keyring("env:SHOP_KEYS"))


def test_command_prints_the_ring(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(BOTH)
    assert_is_new_keyring(load_keyring(f"exec:cat '{tmp_path}/keys.json'"))


def test_old_keys_open_after_a_rotation() -> None:
    before = parse_keyring(document(old=OLD), "file:x").wrap("t", "s", KEY)
    assert parse_keyring(BOTH, "file:x").unwrap("t", "s", before).secret == KEY.secret


@pytest.mark.parametrize(
    ("masters", "complaint"),
    [
        ({"new": NEW}, "under the key-encryption key 'old', which is not in the keyring"),
        ({"old": NEW}, "cannot be decrypted with"),
    ],
)
def test_lacking_master_key_is_named(masters: dict[str, bytes], complaint: str) -> None:
    wrapped = Keyring({"old": OLD}).wrap("customer.keys", "c-42", KEY)
    with pytest.raises(ContradictionError, match=f"key {KEY.kid} of customer.keys.*{complaint}"):
        Keyring(masters).unwrap("customer.keys", "c-42", wrapped)


@pytest.mark.program
@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("keys.json", "does not name a keyring"),
        ("file:", "does not name a keyring"),
        ("vault:x", "does not name a keyring"),
        ("file:nowhere.json", "nowhere.json cannot be read: No such file"),
        ("env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE with the keyring is not set"),
        ("exec:/nowhere/tool", "cannot be run"),
        ("exec:'", "cannot be run"),
        ("exec: ", "cannot be run"),
        (f"exec:{sys.executable} -c 'exit(3)'", "ended with 3"),
    ],
)
def test_place_without_a_ring_is_refused(place: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_keyring(place, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "7",
        '"secret"',
        f'[["new", "{b64encode(NEW).decode()}"]]',
        '{"new": "secret!"}',
        '{"new": 7}',
        '{"secretsecret": "name"}',
        document(new=b"secret"),
        document(new=bytes(33)),
        '{"new": {"key": "secret"}}',
        BOTH.replace("old", "new"),
        BOTH.replace("old", ""),
    ],
)
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="tool … ") as refused:
        parse_keyring(text, "exec:tool --password secret")
    assert "secret" not in str(refused.value)


def test_ring_shows_names_alone() -> None:
    assert repr(parse_keyring(BOTH, "file:x")) == "Keyring(['new', 'old'])"


def test_added_key_is_found_later(tmp_path: Path) -> None:
    """A rotation has added a key to the file after it was read."""
    file = tmp_path / "keys.json"
    file.write_text(document(old=OLD))
    keyring, wrapped = load_keyring("file:keys.json", tmp_path), Keyring({"new": NEW}).wrap("t", "s", KEY)
    with pytest.raises(ContradictionError, match="which is not in the keyring"):
        keyring.unwrap("t", "s", wrapped)
    file.write_text(BOTH)
    assert (keyring.unwrap("t", "s", wrapped).secret, keyring.current) == (KEY.secret, "new")
