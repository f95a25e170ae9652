"""The keys and values of a shard: distinct pairs have distinct keys, and every value is read back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.state import encoding

uuids = st.uuids().map(str)
texts = st.one_of(
    st.text("ab\0\x01\x02\xff", max_size=6),
    uuids,
    uuids.map(str.upper),
    uuids.map(lambda text: text[1:] + text[0]),
    uuids.map(lambda text: text[:-2] + "--"),
    uuids.map(lambda text: text.replace("0", "g")),
    uuids.map(lambda text: text.replace("-", "")),
    uuids.map(lambda text: text.replace("-", "") + "----"),
    uuids.map(lambda text: bytes.fromhex(text.replace("-", "")).decode("latin-1")),
    st.text("0123456789abcdef- ", min_size=36, max_size=36),
    st.text(max_size=600),
)
numbers = st.integers(0, 2**53)


@st.composite
def cut_differently(draw: st.DrawFn) -> tuple[tuple[str, str], tuple[str, str]]:
    """Draw two pairs (subject, id) that are cuts of one text: the id and then the subject, joined, are equal."""
    whole = draw(texts) + draw(texts)
    first, second = draw(st.integers(0, len(whole))), draw(st.integers(0, len(whole)))
    return (whole[first:], whole[:first]), (whole[second:], whole[:second])


@given(st.one_of(st.tuples(st.tuples(texts, texts), st.tuples(texts, texts)), cut_differently()))
def test_different_ids_have_different_keys(pairs: tuple[tuple[str, str], tuple[str, str]]) -> None:
    first, second = pairs
    assert (encoding.dedup_key(*first) == encoding.dedup_key(*second)) == (first == second)


@pytest.mark.parametrize(
    "ids",
    [
        ["000000000-000-0000-0000-000000000000"],
        ["00000000-00000-000-0000-000000000000"],
        ["00000000-0000-00000-000-000000000000"],
        ["00000000-0000-0000-00000-00000000000"],
        ["00000000-0000-0000-0000-0000000000000", "0000000-0000-0000-0000-00000000000000"],
    ],
)
def test_nearly_uuids_are_texts(ids: list[str]) -> None:
    """The dashes are in other places, or there is one more digit."""
    entries = {("a", id): DedupEntry(0, 0, "accepted", 1, 1, 0) for id in ids}
    keys = [key for key, _ in encoding.encode_dedup_entries(entries)]
    assert keys == [encoding.dedup_key("a", id) for id in ids]


@given(uuids | st.just("0" * 8 + "-0000" * 3 + "-" + "0" * 12), st.text(max_size=20))
def test_a_canonical_uuid_takes_16_bytes(command_id: str, subject: str) -> None:
    """A UUID of digits alone takes 16 bytes, too."""
    assert len(encoding.dedup_key(subject, command_id)) == 1 + 16 + len(subject.encode())


DECISION = DedupEntry(0, 0, "accepted", version=1, events=1, fingerprint=0)


UUID = "0198f2c4-7c1e-7b8a-9d55-0198f2c47c1e"


@example([("a", UUID), ("a", UUID[:-2] + "--")])
@example([("a", UUID), ("a", "g" + UUID[1:])])
@example([("a", UUID[:35]), ("a", UUID[35] + UUID)])
@given(st.lists(st.tuples(texts, uuids | texts), unique=True, max_size=5))
def test_batch_of_keys_equals_single_keys(pairs: list[tuple[str, str]]) -> None:
    entries = encoding.encode_dedup_entries(dict.fromkeys(pairs, DECISION))
    single_keys = [encoding.dedup_key(*pair) for pair in pairs]
    assert [key for key, _ in entries] == [
        key if len(key) <= encoding.MAX_KEY else encoding.shorten(key) for key in single_keys
    ]
    assert entries == [entry for pair in pairs for entry in encoding.encode_dedup_entries({pair: DECISION})]


@given(
    st.lists(st.lists(st.tuples(texts, uuids) | st.tuples(texts, texts), min_size=1, max_size=4), max_size=2)
)
def test_no_remembered_id_exceeds_greatest_id(segments: list[list[tuple[str, str]]]) -> None:
    """No segment of the table of ids contains an id greater than `greatest_id`, whatever its subject is."""
    keys = [
        sorted(key for key, _ in encoding.encode_dedup_entries(dict.fromkeys(pairs, DECISION)))
        for pairs in segments
    ]
    greatest = encoding.greatest_id([segment[-1] for segment in keys])
    assert [value for pairs in segments for _, value in pairs if value > greatest] == []


def test_key_order_follows_id_order() -> None:
    ids = [f"0198f2c4-7c1e-7b8a-9d55-{n:012x}" for n in range(1000)]
    keys = [encoding.dedup_key(f"subject {n % 7}", command_id) for n, command_id in enumerate(ids)]
    assert keys == sorted(keys)


@given(st.text(min_size=1, max_size=700), numbers, numbers, st.integers(0, 9_999), st.binary())
def test_encoded_aggregate_is_read_back(
    name: str, version: int, offset: int, index: int, state: bytes
) -> None:
    saved = StoredState(version, offset, index, state)
    key, value = encoding.encode_states({name: saved})[0]
    assert len(key) <= encoding.MAX_KEY
    if encoding.is_long(key):
        assert encoding.decode_long_state(value) == (name.encode(), saved)
    else:
        assert (key.decode(), encoding.decode_state(value)) == (name, saved)


def test_long_and_short_ids_are_encoded_together() -> None:
    saved = StoredState(1, 2, 3, b"{}")
    states = {"a": saved, "b" * 600: saved}
    single_keys = [encoding.encode_states({name: saved})[0] for name in states]
    assert encoding.encode_states(states) == single_keys


@given(texts, texts, st.integers(-1, 2**53), numbers, st.sampled_from(["accepted", "unchanged", "rejected"]))
def test_encoded_decision_is_read_back(
    subject: str, command_id: str, timestamp: int, offset: int, status: str
) -> None:
    decision = DedupEntry(timestamp, offset, status, version=2**53, events=10_000, fingerprint=2**32 - 1)
    whole_key = encoding.dedup_key(subject, command_id)
    ((key, value),) = encoding.encode_dedup_entries({(subject, command_id): decision})
    assert len(key) <= encoding.MAX_KEY
    assert encoding.decode_whole_dedup(value, whole_key) == decision
    assert key == whole_key or value.endswith(whole_key)
