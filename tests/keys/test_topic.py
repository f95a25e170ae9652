"""Records of keys, and the knowledge that readers gain from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.personal.encryption import DamagedValueError, DataKey, aes_siv
from cqrs_cli.keys.topic import KeyTable, WrappedKey, key_value, read_key, unwrap_key, wrap_key

MASTER = aes_siv(bytes(range(64)))
KEY = DataKey.of_random(bytes(range(72)))
WRAPPED = wrap_key(MASTER, "2026-11", "customer.keys", "c-42", KEY)
ONE, OTHER = WrappedKey("one", "m", "…"), WrappedKey("other", "m", "…")


@given(st.binary(min_size=72, max_size=72), st.text(), st.text())
def test_wrapped_key_unwraps(random: bytes, topic: str, subject: str) -> None:
    key = DataKey.of_random(random)
    unwrapped = unwrap_key(MASTER, topic, subject, wrap_key(MASTER, "m", topic, subject, key))
    assert (unwrapped.kid, unwrapped.secret) == (key.kid, key.secret)


@pytest.mark.parametrize(
    ("master", "topic", "subject", "wrapped"),
    [
        (aes_siv(bytes(64)), "customer.keys", "c-42", WRAPPED),
        (MASTER, "order.keys", "c-42", WRAPPED),
        (MASTER, "customer.keys", "c-43", WRAPPED),
        (MASTER, "customer.keys", "c-42", WrappedKey("other", "m", WRAPPED.key)),
        (MASTER, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", WRAPPED.key[:-1])),
        (MASTER, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", "?")),
        (MASTER, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", "")),
    ],
)
def test_moved_or_altered_key_does_not_open(
    master: object, topic: str, subject: str, wrapped: WrappedKey
) -> None:
    with pytest.raises(DamagedValueError):
        unwrap_key(master, topic, subject, wrapped)  # type: ignore[arg-type]


def test_record_is_read_back() -> None:
    assert read_key(key_value(WRAPPED)) == WRAPPED and KEY.secret not in (key_value(WRAPPED) or b"")
    assert read_key(key_value(None)) is None


@pytest.mark.parametrize("value", [b"", b"null", b"{}", b'{"kid":1,"master":"m","key":"k"}', b"[" * 2000])
def test_other_records_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        read_key(value)


def test_tombstone_ends_a_key() -> None:
    assert KeyTable().with_record(ONE).with_record(None) == KeyTable()


@given(st.permutations([ONE, ONE, None]), st.sampled_from([None, 0, 9]))
def test_ended_key_never_comes_back(records: list[WrappedKey | None], end: int | None) -> None:
    """A lagging cache may read the records in any order, and without the tombstone."""
    known = KeyTable().with_record(ONE).with_erased("one")
    for record in records:
        known = known.with_record(record)
    assert known.current is None and known.treatment("one", 0, end) == "erased"


def test_ending_one_key_keeps_the_next() -> None:
    known = KeyTable().with_record(OTHER).with_erased("one")
    assert known.treatment("other", 0, None) == "open"


@pytest.mark.parametrize(
    ("read", "end", "reading"),
    [(7, None, "wait"), (7, 8, "wait"), (8, 8, "erased"), (0, 0, "erased")],
)
def test_keys_are_read_before_one_is_missed(read: int, end: int | None, reading: str) -> None:
    assert KeyTable().with_record(ONE).treatment("other", read, end) == reading


def test_parked_command_ends_with_its_key() -> None:
    known = KeyTable().with_record(OTHER)
    assert known.is_erased("one") and not known.is_erased("other") and KeyTable().is_erased("other")
