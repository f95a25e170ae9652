"""Messages are written with encrypted personal fields, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import Decoder, decode

from cqrs_cli.codec.ciphertext import kids_of_data
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import (
    FindKey,
    decrypt_by_shape,
    decrypt_data,
    encrypt_data,
    has_encrypted_shape,
    personal_values,
    redacting_decoder,
)
from cqrs_cli.core.personal.encryption import DamagedValueError, DataKey, NotEncryptedError, ValueLocation
from cqrs_cli.core.personal.message_redaction import redact_data, redact_message
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered

KEY = DataKey.of_random(bytes(range(72)))
LOCATION = ValueLocation("customer", "c-42", "state", "")

FIND_KEY: FindKey = {KEY.kid: KEY}.get
FIND_NO_KEY: FindKey = dict[str, DataKey]().get

messages = messages_of([Register, Order, Registered, Ordered, Customer])


def encrypt(message: Struct) -> bytes:
    return encrypt_data(type(message), encode_json(message), KEY, LOCATION)


@given(messages)
def test_encrypted_message_is_decrypted(message: Struct) -> None:
    decrypted = decrypt_data(type(message), encrypt(message), FIND_KEY, LOCATION)
    assert decrypted == encode_json(message)


@given(messages)
def test_message_without_its_key_is_redacted(message: Struct) -> None:
    """A reader without a keyring, who redacts a message himself, gets the same result."""
    decrypted = decrypt_data(type(message), encrypt(message), FIND_NO_KEY, LOCATION)
    assert decrypted == encode_json(redact_message(message)) == redact_data(type(message), encrypt(message))


@given(messages)
def test_only_personal_values_need_a_key(message: Struct) -> None:
    needs_key = redact_message(message) != message
    assert bool(personal_values(type(message), encode_json(message))) == needs_key
    assert kids_of_data(encrypt(message)) == ({KEY.kid} if needs_key else set())


@given(messages)
def test_encrypted_members_are_read_as_redacted(message: Struct) -> None:
    decode_redacted = redacting_decoder(Decoder(type(message)).decode, type(message))
    assert decode_redacted(encrypt(message)) == redact_message(message)
    assert decode_redacted(encode_json(message)) == message


def test_encrypted_message_has_no_plain_value() -> None:
    data = encrypt(Customer("Ann Smith", "ann@home", "free", {"Elm Street": 1}))
    assert not any(plain in data for plain in (b"Ann", b"ann", b"Elm")) and b'"plan":"free"' in data


def test_fields_cannot_be_swapped() -> None:
    data = decode(encrypt(Registered("a@b", "c@d", "free")))
    swapped = encode_json({**data, "name": data["mail"], "mail": data["name"]})
    with pytest.raises(DamagedValueError):
        decrypt_data(Registered, swapped, FIND_KEY, LOCATION)


def test_values_before_the_annotation_are_unchanged() -> None:
    data = encode_json(Registered("Ann", "ann@home", "free"))
    assert decrypt_data(Registered, data, FIND_NO_KEY, LOCATION) is data


def test_invalid_encrypted_value_raises() -> None:
    with pytest.raises(NotEncryptedError):
        decrypt_data(Registered, b'{"name":{"$sealed":"AAAA"},"mail":"@","plan":""}', FIND_NO_KEY, LOCATION)


def decrypt_retired(message: Struct, find: FindKey) -> bytes:
    """Return the event as its upcaster gets it, with the redacted values of its former class."""
    redacted_values = {field.wire_name: field.redacted_json for field in personal_fields(type(message))}
    return decrypt_by_shape(encrypt(message), redacted_values, find, LOCATION)


@given(messages, st.sampled_from([FIND_KEY, FIND_NO_KEY]))
def test_retired_event_is_decrypted_without_its_class(message: Struct, find: FindKey) -> None:
    assert decrypt_retired(message, find) == decrypt_data(type(message), encrypt(message), find, LOCATION)


def test_unknown_redacted_value_is_null() -> None:
    decrypted = decrypt_by_shape(
        encrypt(Registered("Ann", "ann@home", "free")), {"mail": b'"x"'}, FIND_NO_KEY, LOCATION
    )
    assert decrypted == b'{"name":null,"mail":"x","plan":"free"}'


@given(messages)
def test_plain_retired_event_is_unchanged(message: Struct) -> None:
    data = encode_json(message)
    assert decrypt_by_shape(data, {}, FIND_NO_KEY, LOCATION) is data
    assert not has_encrypted_shape(data)
    assert has_encrypted_shape(encrypt(message)) == bool(kids_of_data(encrypt(message)))


def test_moved_retired_value_is_not_decrypted() -> None:
    data = encrypt(Registered("Ann", "ann@home", "free"))
    with pytest.raises(DamagedValueError):
        decrypt_by_shape(data, {}, FIND_KEY, LOCATION._replace(subject="c-43"))
    with pytest.raises(NotEncryptedError):
        decrypt_by_shape(b'{"name":{"$sealed":"AAAA"}}', {}, FIND_KEY, LOCATION)


def test_value_of_a_former_field_is_decrypted() -> None:
    """The upcaster gets the value.

    Without its key the value is null, because no annotation defines its redacted value.
    """
    data = encrypt_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, LOCATION)
    decrypted = decrypt_data(Customer, data.replace(b'"mail"', b'"post"'), FIND_NO_KEY, LOCATION)
    assert decode(decrypted) == {"name": "", "post": None, "plan": "free"}
    encrypted = encrypt_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, LOCATION)
    assert decode(decrypt_data(Order, encrypted, FIND_KEY, LOCATION)) == {
        "name": "Ann",
        "mail": "ann@home",
        "plan": "free",
    }
