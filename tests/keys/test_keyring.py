"""The keyring is read from its location, and errors contain no part of a key."""

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.keys.keyring import Keyring, load_keyring, parse_keyring

OLD_KEK, NEW_KEK = bytes(range(64)), bytes(range(32))
KEY = DataKey.of_random(bytes(range(72)))


def keyring_document(**keks: bytes) -> str:
    return json.dumps({name: b64encode(kek).decode() for name, kek in keks.items()})


BOTH_KEKS = keyring_document(new=NEW_KEK, old=OLD_KEK)


def check_current_kek(keyring: Keyring) -> None:
    wrapped = keyring.wrap("customer.keys", "c-42", KEY)
    assert wrapped.kek_name == keyring.current == "new"
    assert keyring.unwrap("customer.keys", "c-42", wrapped).secret == KEY.secret


def test_file_is_relative_to_the_root(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(BOTH_KEKS)
    check_current_kek(load_keyring("file:keys.json", tmp_path))
    check_current_kek(load_keyring(f"file:{tmp_path}/keys.json"))


def test_variable_contains_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEYS", BOTH_KEKS)
    check_current_kek(load_keyring("env:SHOP_KEYS"))


def test_command_prints_the_keyring(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(BOTH_KEKS)
    check_current_kek(load_keyring(f"exec:cat '{tmp_path}/keys.json'"))


def test_old_keys_unwrap_after_a_rotation() -> None:
    wrapped = parse_keyring(keyring_document(old=OLD_KEK), "file:x").wrap("t", "s", KEY)
    assert parse_keyring(BOTH_KEKS, "file:x").unwrap("t", "s", wrapped).secret == KEY.secret


@pytest.mark.parametrize(
    ("keks", "complaint"),
    [
        ({"new": NEW_KEK}, "under the key-encryption key 'old', which is not in the keyring"),
        ({"old": NEW_KEK}, "cannot be decrypted with"),
    ],
)
def test_missing_kek_is_named(keks: dict[str, bytes], complaint: str) -> None:
    wrapped = Keyring({"old": OLD_KEK}).wrap("customer.keys", "c-42", KEY)
    with pytest.raises(ContradictionError, match=f"key {KEY.kid} of customer.keys.*{complaint}"):
        Keyring(keks).unwrap("customer.keys", "c-42", wrapped)


@pytest.mark.program
@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("keys.json", "does not name a keyring"),
        ("file:", "does not name a keyring"),
        ("vault:x", "does not name a keyring"),
        (
            "file:nowhere.json",
            "nowhere.json cannot be read: No such file.*; create it: cqrs keys init, or correct",
        ),
        ("file:.", "cannot be read: Is a directory; correct keyring"),
        ("env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE with the keyring is not set"),
        ("exec:/nowhere/tool", "cannot be run"),
        ("exec:'", "cannot be run"),
        ("exec: ", "cannot be run"),
        (f"exec:{sys.executable} -c 'exit(3)'", "ended with exit code 3"),
    ],
)
def test_invalid_keyring_address_is_refused(address: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_keyring(address, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "7",
        '"secret"',
        f'[["new", "{b64encode(NEW_KEK).decode()}"]]',
        '{"new": "secret!"}',
        '{"new": 7}',
        '{"secretsecret": "name"}',
        keyring_document(new=b"secret"),
        keyring_document(new=bytes(33)),
        '{"new": {"key": "secret"}}',
        BOTH_KEKS.replace("old", "new"),
        BOTH_KEKS.replace("old", ""),
    ],
)
def test_invalid_documents_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="tool … ") as error:
        parse_keyring(text, "exec:tool --password secret")
    assert "secret" not in str(error.value)


def test_keyring_shows_only_names() -> None:
    assert repr(parse_keyring(BOTH_KEKS, "file:x")) == "Keyring(['new', 'old'])"


def test_added_key_is_found_later(tmp_path: Path) -> None:
    """A rotation has added a key to the file after it was read."""
    file = tmp_path / "keys.json"
    file.write_text(keyring_document(old=OLD_KEK))
    keyring, wrapped = load_keyring("file:keys.json", tmp_path), Keyring({"new": NEW_KEK}).wrap("t", "s", KEY)
    with pytest.raises(ContradictionError, match="which is not in the keyring"):
        keyring.unwrap("t", "s", wrapped)
    file.write_text(BOTH_KEKS)
    assert (keyring.unwrap("t", "s", wrapped).secret, keyring.current) == (KEY.secret, "new")
