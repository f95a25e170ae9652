"""A consumer without cqrs decrypts a value as docs/personal.md describes it."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cqrs_cli.core.personal.encryption import DataKey, ValueLocation, aes_siv
from cqrs_cli.keys.topic import key_value, wrap_key

KEY = DataKey.of_random(bytes(range(72)))
MASTER = bytes(range(64, 128))


def test_consumer_opens_a_value() -> None:
    record = key_value(wrap_key(aes_siv(MASTER), "2026", "customer.keys", "c-é", KEY))
    sealed = KEY.encrypt(b'"Ann"', ValueLocation("customer", "c-é", "3/7/0", "name"))

    wrapped, value = json.loads(record or b""), _bytes(json.loads(sealed)["$sealed"])
    secret = _opened(MASTER, _bytes(wrapped["key"]), "customer.keys", "c-é", wrapped["kid"])

    assert urlsafe_b64encode(value[:8]).decode().rstrip("=") == wrapped["kid"]
    assert _opened(secret, value[8:], "customer", "c-é", "3/7/0", "name") == b'"Ann"'


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _opened(key: bytes, closed: bytes, *place: str) -> bytes:
    text = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
    return AESSIV(key).decrypt(closed, [text.encode()])
