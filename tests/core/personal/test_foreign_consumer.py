"""A consumer without cqrs decrypts a value as docs/personal.md describes it."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cqrs_cli.core.personal.encryption import DataKey, ValueLocation, aes_siv
from cqrs_cli.keys.topic import key_value, wrap_key

KEY = DataKey.of_random(bytes(range(72)))
KEK = bytes(range(64, 128))


def test_consumer_decrypts_a_value() -> None:
    record = key_value(wrap_key(aes_siv(KEK), "2026", "customer.keys", "c-é", KEY))
    encrypted = KEY.encrypt(b'"Ann"', ValueLocation("customer", "c-é", "3/7/0", "name"))  # event id 3/7/0

    key_document, sealed = json.loads(record or b""), _decode_base64(json.loads(encrypted)["$sealed"])
    data_key = _decrypt(KEK, _decode_base64(key_document["key"]), "customer.keys", "c-é", key_document["kid"])

    assert urlsafe_b64encode(sealed[:8]).decode().rstrip("=") == key_document["kid"]
    assert _decrypt(data_key, sealed[8:], "customer", "c-é", "3/7/0", "name") == b'"Ann"'


def _decode_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _decrypt(key: bytes, ciphertext: bytes, *location: str) -> bytes:
    text = json.dumps(location, separators=(",", ":"), ensure_ascii=False)
    return AESSIV(key).decrypt(ciphertext, [text.encode()])
