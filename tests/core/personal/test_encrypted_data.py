"""Messages are written with encrypted personal fields, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import Decoder, decode

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import (
    FindKey,
    decrypt_by_shape,
    decrypt_data,
    encrypt_data,
    has_encrypted_shape,
    kids_in,
    personal_values,
    redacting_decoder,
)
from cqrs_cli.core.personal.encryption import DamagedValueError, DataKey, NotEncryptedError, ValueLocation
from cqrs_cli.core.personal.masking import mask, mask_data
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered

KEY = DataKey.of_random(bytes(range(72)))
PLACE = ValueLocation("customer", "c-42", "state", "")

KNOWN: FindKey = {KEY.kid: KEY}.get
NONE: FindKey = dict[str, DataKey]().get

messages = messages_of([Register, Order, Registered, Ordered, Customer])


def sealed(message: Struct) -> bytes:
    return encrypt_data(type(message), encode_json(message), KEY, PLACE)


@given(messages)
def test_sealed_message_opens(message: Struct) -> None:
    opened = decrypt_data(type(message), sealed(message), KNOWN, PLACE)
    assert opened == encode_json(message)


@given(messages)
def test_message_without_its_key_is_masked(message: Struct) -> None:
    """A reader without a keyring, who redacts a message himself, gets the same result."""
    opened = decrypt_data(type(message), sealed(message), NONE, PLACE)
    assert opened == encode_json(mask(message)) == mask_data(type(message), sealed(message))


@given(messages)
def test_only_what_says_something_needs_a_key(message: Struct) -> None:
    needs = mask(message) != message
    assert bool(personal_values(type(message), encode_json(message))) == needs
    assert kids_in(sealed(message)) == ({KEY.kid} if needs else set())


@given(messages)
def test_sealed_members_are_read_as_placeholders(message: Struct) -> None:
    read = redacting_decoder(Decoder(type(message)).decode, type(message))
    assert read(sealed(message)) == mask(message)
    assert read(encode_json(message)) == message


def test_no_plain_value_is_left() -> None:
    data = sealed(Customer("Ann Smith", "ann@home", "free", {"Elm Street": 1}))
    assert not any(plain in data for plain in (b"Ann", b"ann", b"Elm")) and b'"plan":"free"' in data


def test_fields_cannot_be_exchanged() -> None:
    data = decode(sealed(Registered("a@b", "c@d", "free")))
    exchanged = encode_json({**data, "name": data["mail"], "mail": data["name"]})
    with pytest.raises(DamagedValueError):
        decrypt_data(Registered, exchanged, KNOWN, PLACE)


def test_values_of_before_the_mark_stay() -> None:
    data = encode_json(Registered("Ann", "ann@home", "free"))
    assert decrypt_data(Registered, data, NONE, PLACE) is data


def test_broken_seal_is_no_value() -> None:
    with pytest.raises(NotEncryptedError):
        decrypt_data(Registered, b'{"name":{"$sealed":"AAAA"},"mail":"@","plan":""}', NONE, PLACE)


def retired(message: Struct, find: FindKey) -> bytes:
    """Return the event as its upcaster gets it, with the redacted values of its former class."""
    erased = {one.wire: one.redacted_json for one in personal_fields(type(message))}
    return decrypt_by_shape(sealed(message), erased, find, PLACE)


@given(messages, st.sampled_from([KNOWN, NONE]))
def test_retired_event_opens_as_with_its_class(message: Struct, find: FindKey) -> None:
    assert retired(message, find) == decrypt_data(type(message), sealed(message), find, PLACE)


def test_undeclared_placeholder_is_null() -> None:
    opened = decrypt_by_shape(sealed(Registered("Ann", "ann@home", "free")), {"mail": b'"x"'}, NONE, PLACE)
    assert opened == b'{"name":null,"mail":"x","plan":"free"}'


@given(messages)
def test_retired_event_without_seals_stays(message: Struct) -> None:
    data = encode_json(message)
    assert decrypt_by_shape(data, {}, NONE, PLACE) is data
    assert not has_encrypted_shape(data)
    assert has_encrypted_shape(sealed(message)) == bool(kids_in(sealed(message)))


def test_moved_retired_value_never_opens() -> None:
    data = sealed(Registered("Ann", "ann@home", "free"))
    with pytest.raises(DamagedValueError):
        decrypt_by_shape(data, {}, KNOWN, PLACE._replace(subject="c-43"))
    with pytest.raises(NotEncryptedError):
        decrypt_by_shape(b'{"name":{"$sealed":"AAAA"}}', {}, KNOWN, PLACE)


def test_value_of_an_earlier_name_opens() -> None:
    """The upcaster gets the value.

    Without its key the value is null, because no annotation defines its redacted value.
    """
    data = encrypt_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, PLACE)
    found = decrypt_data(Customer, data.replace(b'"mail"', b'"post"'), NONE, PLACE)
    assert decode(found) == {"name": "", "post": None, "plan": "free"}
    earlier = encrypt_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, PLACE)
    assert decode(decrypt_data(Order, earlier, KNOWN, PLACE)) == {
        "name": "Ann",
        "mail": "ann@home",
        "plan": "free",
    }
