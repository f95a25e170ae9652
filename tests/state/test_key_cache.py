"""The key cache returns the fold of its changes, for any batches and restarts."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.keys.topic import SubjectKeys, WrappedKey
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.key_cache import (
    ErasedKey,
    KeyCache,
    KeyChange,
    KeyOffsets,
    KeyRecord,
    KeyStore,
    MemoryKeys,
    open_key_cache,
)
from cqrs_cli.state.store import NotOwnerError

TOPICS = ("k", "e")
SUBJECTS = ("c-1", "c" * 1024)
START = KeyOffsets(TOPICS)

kids = st.sampled_from(["one", "two"])
changes = st.one_of(
    st.builds(
        KeyRecord, st.sampled_from(SUBJECTS), st.none() | kids.map(lambda kid: WrappedKey(kid, "m", ""))
    ),
    st.builds(ErasedKey, st.sampled_from(SUBJECTS), kids),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, one after the other."""
    root = tmp_path_factory.mktemp("keys")
    return (root / str(number) for number in count())


def fold_changes(key_changes: list[KeyChange], subject: str) -> SubjectKeys:
    subject_keys = SubjectKeys()
    for change in key_changes:
        match change:
            case KeyRecord(id, wrapped) if id == subject:
                subject_keys = subject_keys.with_record(wrapped)
            case ErasedKey(id, kid) if id == subject:
                subject_keys = subject_keys.with_erased(kid)
    return subject_keys


@given(st.lists(changes, max_size=12), st.sets(st.integers(0, 12)))
def test_cuts_and_restarts_make_no_difference(
    folders: Iterator[Path], key_changes: list[KeyChange], cuts: set[int]
) -> None:
    folder = next(folders)
    for start, end in pairwise(
        sorted({0, *(cut for cut in cuts if cut < len(key_changes)), len(key_changes)})
    ):
        with closing(KeyCache(folder, TOPICS)) as cache:
            offsets = KeyOffsets(TOPICS, end, end)
            cache.apply(cache.offsets, offsets, key_changes[start:end])
    with closing(KeyCache(folder, TOPICS)) as cache:
        assert [cache.keys_of(subject) for subject in SUBJECTS] == [
            fold_changes(key_changes, subject) for subject in SUBJECTS
        ]
        assert cache.offsets.keys == len(key_changes)


@pytest.fixture(params=["disk", "memory"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    """An empty cache of each kind."""
    store: KeyStore = KeyCache(tmp_path / "new", TOPICS) if request.param == "disk" else MemoryKeys(TOPICS)
    with closing(store):
        yield store


def test_stale_writer_changes_nothing(keys: KeyStore) -> None:
    """A paused owner wakes up after its successor has ended the key."""
    keys.apply(START, KeyOffsets(TOPICS, 1, 1), [ErasedKey("c-1", "one")])
    with pytest.raises(NotOwnerError, match="not at"):
        keys.apply(START, KeyOffsets(TOPICS, 1, 0), [KeyRecord("c-1", WrappedKey("two", "m", ""))])
    assert keys.keys_of("c-1") == SubjectKeys(None, frozenset({"one"}))


def test_cleared_cache_is_empty(keys: KeyStore) -> None:
    keys.apply(START, KeyOffsets(TOPICS, 1, 1), [KeyRecord("c-1", WrappedKey("one", "m", ""))])
    keys.clear()
    assert (keys.offsets, keys.keys_of("c-1")) == (START, SubjectKeys())


def test_damaged_cache_is_emptied(tmp_path: Path) -> None:
    with closing(KeyCache(tmp_path, TOPICS)) as cache:
        cache.apply(START, KeyOffsets(TOPICS, 1, 0), [KeyRecord("c-1", WrappedKey("one", "m", ""))])
    data = tmp_path / DATA_FILE
    data.write_bytes(data.read_bytes()[:9000])
    with closing(open_key_cache(tmp_path, TOPICS)) as cache:
        assert cache.offsets == START


def test_recreated_topic_empties_the_cache(tmp_path: Path) -> None:
    with closing(KeyCache(tmp_path, TOPICS)) as cache:
        cache.apply(START, KeyOffsets(TOPICS, 1, 0), [KeyRecord("c-1", WrappedKey("one", "m", ""))])
    with closing(KeyCache(tmp_path, ("other", "e"))) as cache:
        assert (cache.offsets, cache.keys_of("c-1")) == (KeyOffsets(("other", "e")), SubjectKeys())


def test_full_map_grows(tmp_path: Path) -> None:
    with closing(KeyCache(tmp_path, TOPICS, map_size=1 << 16)) as cache:
        records = [KeyRecord(f"c-{n}", WrappedKey("one", "m", "x" * 90)) for n in range(2000)]
        cache.apply(START, KeyOffsets(TOPICS, 2000), records)
        assert cache.keys_of("c-1999").current == WrappedKey("one", "m", "x" * 90)


def test_cache_is_readable_by_its_user_only(tmp_path: Path) -> None:
    with closing(KeyCache(tmp_path / "cache", TOPICS)):
        assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
