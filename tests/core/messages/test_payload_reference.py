"""References to payloads: their form in a record, and the forms that are refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.payload_reference import (
    MAX_PAYLOAD,
    data_of_document,
    find_reference,
    parse_reference,
    payload_folder,
    reference_to,
    with_data,
    with_payload_data,
    with_reference,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NAMES = st.text("abcdefghij", min_size=1).filter(lambda name: not name.startswith("data"))


@given(attributes=st.dictionaries(NAMES, JSON, max_size=4), data=st.dictionaries(st.text(), JSON, max_size=3))
def test_reference_replaces_the_data(attributes: dict[str, object], data: dict[str, object]) -> None:
    payload = msgspec.json.encode(data)
    document = msgspec.json.encode({**attributes, "data": msgspec.Raw(payload)})
    document_with_reference = with_reference(document, "order", reference_to(payload))
    assert find_reference(document) is None
    assert data_of_document(document) == payload
    assert data_of_document(document_with_reference) is None
    assert find_reference(document_with_reference) == reference_to(payload)
    assert msgspec.json.decode(document_with_reference)["dataref"] == f"order/{reference_to(payload).sha256}"
    assert msgspec.json.decode(with_data(document_with_reference, payload)) == msgspec.json.decode(document)
    assert with_payload_data(document_with_reference, {reference_to(payload): payload}) == with_data(
        document_with_reference, payload
    )
    assert with_payload_data(document, {reference_to(payload): payload}) == document
    assert with_payload_data(document_with_reference, {}) == document_with_reference


def test_folder_is_the_aggregate_of_the_topic() -> None:
    assert payload_folder("shop.order.commands") == payload_folder("shop.order.events") == "shop.order"


@given(data=st.binary(max_size=40), index=st.integers(0, 39), bit=st.integers(0, 7))
def test_no_other_bytes_are_accepted(data: bytes, index: int, bit: int) -> None:
    reference = reference_to(data)
    assert reference.matches(data)
    assert not reference.matches(data + b"\0")
    if index < len(data):
        changed = bytearray(data)
        changed[index] ^= 1 << bit
        assert not reference.matches(bytes(changed))


@pytest.mark.parametrize(
    ("digest", "size"),
    [
        (None, 1),
        ("", 1),
        ("a" * 63, 1),
        ("A" * 64, 1),
        ("../" + "a" * 61, 1),
        ("a" * 64 + "\n", 1),
        ("a" * 64, None),
        ("a" * 64, -1),
        ("a" * 64, "-1"),
        ("a" * 64, "01"),
        ("a" * 64, MAX_PAYLOAD + 1),
    ],
)
def test_malformed_references_are_refused(digest: str | None, size: int | str | None) -> None:
    with pytest.raises(ValueError, match="data"):
        parse_reference(digest, size)
    assert parse_reference("a" * 64, "7") == parse_reference("a" * 64, 7)
    for size_limit in (0, MAX_PAYLOAD):
        assert parse_reference("a" * 64, size_limit).size == size_limit


@pytest.mark.parametrize("document", [None, b"no JSON", b'{"data":{"datasha256":"x"}}'])
def test_other_documents_have_no_reference(document: bytes | None) -> None:
    assert find_reference(document) is None
