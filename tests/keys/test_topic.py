"""Records of keys, and the knowledge that readers gain from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.personal.encryption import DamagedValueError, DataKey, aes_siv
from cqrs_cli.keys.topic import SubjectKeys, WrappedKey, key_value, read_key, unwrap_key, wrap_key

KEK = aes_siv(bytes(range(64)))
KEY = DataKey.of_random(bytes(range(72)))
WRAPPED = wrap_key(KEK, "2026-11", "customer.keys", "c-42", KEY)
ONE_KEY, OTHER_KEY = WrappedKey("one", "m", "…"), WrappedKey("other", "m", "…")


@given(st.binary(min_size=72, max_size=72), st.text(), st.text())
def test_wrapped_key_unwraps(random: bytes, topic: str, subject: str) -> None:
    key = DataKey.of_random(random)
    unwrapped = unwrap_key(KEK, topic, subject, wrap_key(KEK, "m", topic, subject, key))
    assert (unwrapped.kid, unwrapped.secret) == (key.kid, key.secret)


@pytest.mark.parametrize(
    ("kek", "topic", "subject", "wrapped"),
    [
        (aes_siv(bytes(64)), "customer.keys", "c-42", WRAPPED),
        (KEK, "order.keys", "c-42", WRAPPED),
        (KEK, "customer.keys", "c-43", WRAPPED),
        (KEK, "customer.keys", "c-42", WrappedKey("other", "m", WRAPPED.key)),
        (KEK, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", WRAPPED.key[:-1])),
        (KEK, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", "?")),
        (KEK, "customer.keys", "c-42", WrappedKey(KEY.kid, "m", "")),
    ],
)
def test_copied_or_altered_key_does_not_unwrap(
    kek: object, topic: str, subject: str, wrapped: WrappedKey
) -> None:
    with pytest.raises(DamagedValueError):
        unwrap_key(kek, topic, subject, wrapped)  # type: ignore[arg-type]


def test_record_is_read_back() -> None:
    assert read_key(key_value(WRAPPED)) == WRAPPED and KEY.secret not in (key_value(WRAPPED) or b"")
    assert read_key(key_value(None)) is None


@pytest.mark.parametrize("value", [b"", b"null", b"{}", b'{"kid":1,"master":"m","key":"k"}', b"[" * 2000])
def test_invalid_records_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        read_key(value)


def test_tombstone_removes_a_key() -> None:
    assert SubjectKeys().with_record(ONE_KEY).with_record(None) == SubjectKeys()


@given(st.permutations([ONE_KEY, ONE_KEY, None]), st.sampled_from([None, 0, 9]))
def test_deleted_key_never_comes_back(records: list[WrappedKey | None], end: int | None) -> None:
    """A lagging cache may read the records in any order, and miss the tombstone."""
    keys = SubjectKeys().with_record(ONE_KEY).with_erased("one")
    for record in records:
        keys = keys.with_record(record)
    assert keys.current is None and keys.treatment("one", 0, end) == "redact"


def test_ending_one_key_keeps_the_next() -> None:
    keys = SubjectKeys().with_record(OTHER_KEY).with_erased("one")
    assert keys.treatment("other", 0, None) == "decrypt"


@pytest.mark.parametrize(
    ("read_until", "end", "treatment"),
    [(7, None, "read more"), (7, 8, "read more"), (8, 8, "redact"), (0, 0, "redact")],
)
def test_missing_key_is_erased_only_after_reading(read_until: int, end: int | None, treatment: str) -> None:
    assert SubjectKeys().with_record(ONE_KEY).treatment("other", read_until, end) == treatment


def test_erased_key_ends_deferred_commands() -> None:
    keys = SubjectKeys().with_record(OTHER_KEY)
    assert keys.is_erased("one") and not keys.is_erased("other") and SubjectKeys().is_erased("other")
