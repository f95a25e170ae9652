"""Messages are written with encrypted personal fields, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import Decoder, decode

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import (
    FindKey,
    has_seals,
    kids_in,
    open_data,
    open_retired,
    personal_values,
    seal_data,
    sealed_as_placeholders,
)
from cqrs_cli.core.personal.encryption import DamagedSealError, DataKey, NotSealedError, SealPlace
from cqrs_cli.core.personal.masking import mask, mask_data
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.testing.strategies import any_of
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered

KEY = DataKey.of_random(bytes(range(72)))
PLACE = SealPlace("customer", "c-42", "state", "")

KNOWN: FindKey = {KEY.kid: KEY}.get
NONE: FindKey = dict[str, DataKey]().get

messages = any_of([Register, Order, Registered, Ordered, Customer])


def sealed(message: Struct) -> bytes:
    return seal_data(type(message), encode_json(message), KEY, PLACE)


@given(messages)
def test_sealed_message_opens(message: Struct) -> None:
    opened = open_data(type(message), sealed(message), KNOWN, PLACE)
    assert opened == encode_json(message)


@given(messages)
def test_message_without_its_key_is_masked(message: Struct) -> None:
    """A reader without a keyring, who redacts a message himself, gets the same result."""
    opened = open_data(type(message), sealed(message), NONE, PLACE)
    assert opened == encode_json(mask(message)) == mask_data(type(message), sealed(message))


@given(messages)
def test_only_what_says_something_needs_a_key(message: Struct) -> None:
    needs = mask(message) != message
    assert bool(personal_values(type(message), encode_json(message))) == needs
    assert kids_in(sealed(message)) == ({KEY.kid} if needs else set())


@given(messages)
def test_sealed_members_are_read_as_placeholders(message: Struct) -> None:
    read = sealed_as_placeholders(Decoder(type(message)).decode, type(message))
    assert read(sealed(message)) == mask(message)
    assert read(encode_json(message)) == message


def test_no_plain_value_is_left() -> None:
    data = sealed(Customer("Ann Smith", "ann@home", "free", {"Elm Street": 1}))
    assert not any(plain in data for plain in (b"Ann", b"ann", b"Elm")) and b'"plan":"free"' in data


def test_fields_cannot_be_exchanged() -> None:
    data = decode(sealed(Registered("a@b", "c@d", "free")))
    exchanged = encode_json({**data, "name": data["mail"], "mail": data["name"]})
    with pytest.raises(DamagedSealError):
        open_data(Registered, exchanged, KNOWN, PLACE)


def test_values_of_before_the_mark_stay() -> None:
    data = encode_json(Registered("Ann", "ann@home", "free"))
    assert open_data(Registered, data, NONE, PLACE) is data


def test_broken_seal_is_no_value() -> None:
    with pytest.raises(NotSealedError):
        open_data(Registered, b'{"name":{"$sealed":"AAAA"},"mail":"@","plan":""}', NONE, PLACE)


def retired(message: Struct, find: FindKey) -> bytes:
    """Return the event as its upcaster gets it, with the redacted values of its former class."""
    erased = {one.wire: one.erased for one in personal_fields(type(message))}
    return open_retired(sealed(message), erased, find, PLACE)


@given(messages, st.sampled_from([KNOWN, NONE]))
def test_retired_event_opens_as_with_its_class(message: Struct, find: FindKey) -> None:
    assert retired(message, find) == open_data(type(message), sealed(message), find, PLACE)


def test_undeclared_placeholder_is_null() -> None:
    opened = open_retired(sealed(Registered("Ann", "ann@home", "free")), {"mail": b'"x"'}, NONE, PLACE)
    assert opened == b'{"name":null,"mail":"x","plan":"free"}'


@given(messages)
def test_retired_event_without_seals_stays(message: Struct) -> None:
    data = encode_json(message)
    assert open_retired(data, {}, NONE, PLACE) is data
    assert not has_seals(data)
    assert has_seals(sealed(message)) == bool(kids_in(sealed(message)))


def test_moved_retired_value_never_opens() -> None:
    data = sealed(Registered("Ann", "ann@home", "free"))
    with pytest.raises(DamagedSealError):
        open_retired(data, {}, KNOWN, PLACE._replace(subject="c-43"))
    with pytest.raises(NotSealedError):
        open_retired(b'{"name":{"$sealed":"AAAA"}}', {}, KNOWN, PLACE)


def test_value_of_an_earlier_name_opens() -> None:
    """The upcaster gets the value.

    Without its key the value is null, because no annotation defines its redacted value.
    """
    data = seal_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, PLACE)
    found = open_data(Customer, data.replace(b'"mail"', b'"post"'), NONE, PLACE)
    assert decode(found) == {"name": "", "post": None, "plan": "free"}
    earlier = seal_data(Registered, encode_json(Registered("Ann", "ann@home", "free")), KEY, PLACE)
    assert decode(open_data(Order, earlier, KNOWN, PLACE)) == {
        "name": "Ann",
        "mail": "ann@home",
        "plan": "free",
    }
