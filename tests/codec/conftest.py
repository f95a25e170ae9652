"""A reader of encrypted events whose keys are in memory."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from cqrs_cli.codec.encrypted_events import personal_members
from cqrs_cli.codec.event_decryptor import EventDecryptor, KeySource
from cqrs_cli.keys.address import KeyRingAddress
from tests.codec.in_memory import KeysInMemory
from tests.core.personal.customer import CUSTOMER


@pytest.fixture
def keyring_address(tmp_path: Path) -> KeyRingAddress:
    (tmp_path / "ring.json").write_text(json.dumps({"2026": b64encode(bytes(64)).decode()}))
    return KeyRingAddress("file:ring.json", tmp_path)


@pytest.fixture
def keys(keyring_address: KeyRingAddress) -> KeysInMemory:
    return KeysInMemory(keyring_address)


@pytest.fixture
def decryptor(keyring_address: KeyRingAddress, keys: KeysInMemory) -> EventDecryptor:
    return EventDecryptor("customer.events", personal_members(CUSTOMER), KeySource(keyring_address, keys))
