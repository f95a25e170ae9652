"""Encrypted values can be decrypted with their key, for their field, and not otherwise."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.personal.encryption import (
    STATE,
    DamagedValueError,
    DataKey,
    NotEncryptedError,
    OtherKeyError,
    ValueLocation,
    aes_siv,
    from_base64url,
    is_encrypted,
    kid_of,
    to_base64url,
)

KEY = DataKey.of_random(bytes(range(72)))
LOCATION = ValueLocation("customer", "c-42", "3/18274/0", "name")
ENCRYPTED = KEY.encrypt(b'"Ann"', LOCATION)

#: Appendix A of RFC 5297: key, associated data, plaintext, output.
VECTORS = {
    "A.1": (
        "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        ["101112131415161718191a1b1c1d1e1f2021222324252627"],
        "112233445566778899aabbccddee",
        "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c",
    ),
    "A.2": (
        "7f7e7d7c7b7a79787776757473727170404142434445464748494a4b4c4d4e4f",
        [
            "00112233445566778899aabbccddeeffdeaddadadeaddadaffeeddccbbaa99887766554433221100",
            "102030405060708090a0",
            "09f911029d74e35bd84156c5635688c0",
        ],
        "7468697320697320736f6d6520706c61696e7465787420746f20656e6372797074207573696e67205349562d414553",
        "7bdb6e3b432667eb06f4d14bff2fbd0fcb900f2fddbe404326601965c889bf17"
        "dba77ceb094fa663b7a3f748ba8af829ea64ad544a272e9c485b62a3fd5c0d",
    ),
}

values = st.binary(min_size=1, max_size=100)
keys = st.binary(min_size=72, max_size=72).map(DataKey.of_random)
parts = st.text("ab/", max_size=3)
locations = st.builds(ValueLocation, parts, parts, st.just(STATE) | parts, parts)


@pytest.mark.parametrize("vector", VECTORS)
def test_cipher_gives_the_vectors_of_the_rfc(vector: str) -> None:
    key, associated_data, plain, output = VECTORS[vector]
    parts = [bytes.fromhex(part) for part in associated_data]
    assert aes_siv(bytes.fromhex(key)).encrypt(bytes.fromhex(plain), parts).hex() == output


@given(keys, values, locations)
def test_encrypted_value_is_decrypted(key: DataKey, value: bytes, location: ValueLocation) -> None:
    encrypted = key.encrypt(value, location)
    assert key.decrypt(encrypted, location) == value
    assert (
        key.encrypt(value, location) == encrypted and is_encrypted(encrypted) and kid_of(encrypted) == key.kid
    )


@given(values, locations, locations)
def test_moved_value_is_not_decrypted(
    value: bytes, location: ValueLocation, other_location: ValueLocation
) -> None:
    if location == other_location:
        return
    with pytest.raises(
        DamagedValueError, match=f"it has the id of key {KEY.kid}, but this key does not decrypt it"
    ):
        KEY.decrypt(KEY.encrypt(value, location), other_location)


@given(keys, keys, values)
def test_value_of_another_key_names_it(first_key: DataKey, second_key: DataKey, value: bytes) -> None:
    if first_key.kid == second_key.kid:
        return
    with pytest.raises(OtherKeyError) as raised:
        second_key.decrypt(first_key.encrypt(value, LOCATION), LOCATION)
    assert raised.value.kid == first_key.kid


def test_another_secret_under_the_id_is_damage() -> None:
    with pytest.raises(DamagedValueError):
        DataKey(KEY.kid, bytes(64)).decrypt(ENCRYPTED, LOCATION)


@given(st.integers(0, len(from_base64url(ENCRYPTED[12:-2].decode())) - 1), st.integers(1, 255))
def test_altered_value_is_not_decrypted(index: int, change: int) -> None:
    data = bytearray(from_base64url(ENCRYPTED[12:-2].decode()))
    data[index] ^= change
    with pytest.raises(OtherKeyError if index < 8 else DamagedValueError):
        KEY.decrypt(b'{"$sealed":"%b"}' % to_base64url(bytes(data)).encode(), LOCATION)


@pytest.mark.parametrize(
    "encrypted",
    [
        b"null",
        b'"AAAA"',
        b"{}",
        b'{"$sealed":1}',
        b'{"$sealed":"AAAA"}',
        ENCRYPTED[:-2] + b'="}',
        ENCRYPTED[:-2] + b'!"}',
        ENCRYPTED[:-1] + b',"more":1}',
        b'{"$sealed":"' + to_base64url(bytes(24)).encode() + b'"}',
    ],
)
def test_other_shapes_are_not_encrypted(encrypted: bytes) -> None:
    with pytest.raises(NotEncryptedError):
        KEY.decrypt(encrypted, LOCATION)


def test_equal_values_have_different_ciphertexts() -> None:
    assert KEY.encrypt(b'"Ann"', LOCATION._replace(subject="c-43"))[30:] != ENCRYPTED[30:]


def test_changed_state_is_encrypted_again() -> None:
    key, location = DataKey.of_random(bytes(range(72))), LOCATION._replace(message=STATE)
    first = key.encrypt(b'"Ann"', location)
    assert key.encrypt(b'"Ann"', location) is first
    assert key.decrypt(key.encrypt(b'"Bob"', location), location) == b'"Bob"'


def test_secret_is_not_shown() -> None:
    assert repr(KEY) == f"DataKey('{KEY.kid}')"


@pytest.mark.parametrize("size", [0, 71, 73])
def test_key_needs_all_its_random_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="72 random bytes"):
        DataKey.of_random(bytes(size))


@pytest.mark.program
def test_missing_library_is_named() -> None:
    """A new process is used, so that the library cannot be loaded yet."""
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from cqrs_cli.core.personal.encryption import aes_siv\n"
        "try: aes_siv(bytes(64))\n"
        "except Exception as error: print(error)"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'cqrs-cli[personal]'" in process.stdout
