"""Checkpoints in a folder: complete or not used, the newest are kept, and a shard made from one equals the original."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints, DamagedError
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.errors import REBUILD, CorruptError
from cqrs_cli.state.shard import install_shard, open_shard
from cqrs_cli.storage.folder import open_folder
from tests.state.checkpoint.folders import FullFolder, InChunks
from tests.state.shards import IDENTITY, MANIFEST, Opening, Python
from tests.state.values import decision, look_up, recall, saved, write


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.objects)])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Checkpoints in the folder `store/0`, on a disk or in an object store."""
    if request.param == "bucket":
        bucket = request.getfixturevalue("bucket")
        (tmp_path / "store").symlink_to(bucket.folder / "store")
        return Checkpoints(open_folder(bucket.uri("store/0"), tmp_path))
    return Checkpoints(open_folder("store/0", tmp_path))


def describe_manifest(checkpoints: Checkpoints) -> Callable[[int, str], Manifest]:
    written = checkpoints.next_time(checkpoints.newest())
    return lambda size, digest: replace(MANIFEST, written=written, size=size, sha256=digest)


def written(checkpoints: Checkpoints, tmp_path: Path, content: bytes, keep: int = 2) -> Manifest:
    data = tmp_path / "data"
    data.write_bytes(content)
    return checkpoints.write(data, describe_manifest(checkpoints), keep)


def fetched(checkpoints: Checkpoints, manifest: Manifest, tmp_path: Path) -> bytes:
    checkpoints.download(manifest, tmp_path / "into", lambda progress: None)
    return (tmp_path / "into").read_bytes()


@pytest.mark.program
@pytest.mark.covers("checkpoint")
def test_newest_are_kept_with_their_data(checkpoints: Checkpoints, tmp_path: Path) -> None:
    every = [written(checkpoints, tmp_path, bytes([n]) * 9) for n in range(4)]
    assert checkpoints.manifests() == [every[3], every[2]]
    assert fetched(checkpoints, every[3], tmp_path) == b"\x03" * 9
    assert fetched(checkpoints, every[2], tmp_path) == b"\x02" * 9
    assert len(checkpoints.folder.files()) == 4


def test_data_of_torn_uploads_goes(checkpoints: Checkpoints, tmp_path: Path) -> None:
    checkpoints.folder.write("000000000000001-torn.mdb", iter([b"half"]))
    one = written(checkpoints, tmp_path, b"whole")
    assert [file.name for file in checkpoints.folder.files()] == [one.encoded()[0], one.data]


def test_clock_that_went_back_keeps_order(checkpoints: Checkpoints) -> None:
    ahead = replace(MANIFEST, written=9_999_999_999_999)
    assert checkpoints.next_time(ahead) == ahead.written + 1
    before = time.time_ns() // 1_000_000
    assert before <= checkpoints.next_time(MANIFEST) <= time.time_ns() // 1_000_000


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("broken", [b"", b"twelve byteX", b"twelve", b"twelve bytes and more"])
def test_damaged_data_is_refused(checkpoints: Checkpoints, tmp_path: Path, broken: bytes) -> None:
    one = written(checkpoints, tmp_path, b"twelve bytes")
    (tmp_path / "store/0" / one.data).write_bytes(broken)
    with pytest.raises(DamagedError, match="the checkpoint of"):
        fetched(checkpoints, one, tmp_path)


@pytest.mark.covers("checkpoint")
def test_chunks_are_counted_together(tmp_path: Path) -> None:
    there, told = [b"twelve ", b"bytes"], list[int]()
    checkpoints = Checkpoints(InChunks(tmp_path / "store/0", there))
    one = written(checkpoints, tmp_path, b"twelve bytes")
    checkpoints.download(one, tmp_path / "into", told.append)
    assert ((tmp_path / "into").read_bytes(), told) == (b"twelve bytes", [7, 12])
    there.append(b"and more")
    with pytest.raises(DamagedError, match="has 20 of 12 bytes"):
        fetched(checkpoints, one, tmp_path)


@pytest.mark.covers("checkpoint")
def test_damaged_manifest_is_passed_over(checkpoints: Checkpoints, tmp_path: Path) -> None:
    """A damaged manifest is skipped, and so is a manifest that its owner has deleted since the listing."""
    one, other = (written(checkpoints, tmp_path, text) for text in (b"1", b"2"))
    damaged, removed = other.encoded()[0], written(checkpoints, tmp_path, b"3", keep=3).encoded()[0]
    (tmp_path / "store/0" / damaged).write_bytes(b"{}")
    notes: list[str] = []

    def note(text: str) -> None:
        """Delete the newest manifest while the others are read."""
        notes.append(text)
        (tmp_path / "store/0" / removed).unlink(missing_ok=True)

    assert checkpoints.manifests(note) == [one]
    assert damaged in notes[0] and "damaged" in notes[0] and removed in notes[1]


@pytest.mark.covers("checkpoint")
def test_failed_upload_leaves_no_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(FullFolder(tmp_path / "store/0"))
    with pytest.raises(CqrsError, match="full"):
        written(checkpoints, tmp_path, b"1")
    assert checkpoints.newest() is None


def test_workplace_removes_what_was_left(path: Path) -> None:
    with temporary_folder(path, "copy") as held:
        left = path.with_name("0.copy-999999")
        left.mkdir()
        (left / "data.mdb").write_bytes(b"half")
        other = path.with_name("1.copy-999999")
        other.mkdir()
        with temporary_folder(path, "fetch"):
            assert held.exists()
        with temporary_folder(path.with_name("01"), "copy"):
            assert left.exists()
        assert held.exists()
    with temporary_folder(path, "copy"):
        pass
    assert [one.name for one in sorted(path.parent.iterdir())] == ["1.copy-999999"]


def copy_of(opening: Opening, into: Path) -> Path:
    """Return a folder with a copy of a shard with one aggregate, as a checkpoint provides it."""
    store = opening().store
    store.take_ownership("somebody", "")
    write(store, states={"a": saved()})
    into.mkdir()
    store.copy(into)
    store.close()
    return into


def test_copy_names_the_shard(opening: Opening, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"the state folder {path} cannot be used"):
        opening().store.copy(tmp_path / "missing")


@pytest.mark.covers("checkpoint")
def test_installed_copy_is_nobodys_shard(opening: Opening, path: Path, tmp_path: Path) -> None:
    prepared = copy_of(opening, tmp_path / "prepared")
    shutil.rmtree(path)
    opening().store.close()
    store = install_shard(path, prepared, IDENTITY)
    assert (look_up(store, "a"), store.token(), store.positions().commands) == (saved(), "", 1)
    store.close()
    again = opening()
    assert (again.is_new, look_up(again.store, "a")) == (False, saved())
    assert [one.name for one in path.parent.iterdir()] == ["0"]


@pytest.mark.covers("checkpoint")
def test_copy_of_another_log_changes_nothing(opening: Opening, path: Path, tmp_path: Path) -> None:
    prepared = copy_of(opening, tmp_path / "prepared")
    with pytest.raises(CorruptError, match="differs: revision was 1 and is 2") as raised:
        install_shard(path, prepared, replace(IDENTITY, revision=2), "")
    assert raised.value.hint == REBUILD
    assert look_up(opening().store, "a") == saved()


def test_exchanged_shard_is_set_aside(opening: Opening, path: Path, tmp_path: Path) -> None:
    prepared = copy_of(opening, tmp_path / "prepared")
    notes: list[str] = []
    install_shard(path, prepared, IDENTITY, "rebuilt", notes.append).close()
    (aside,) = path.parent.glob("0.aside-*-rebuilt")
    assert notes == [f"state in {path} quarantined as {aside.name}, for a new one: rebuilt"]


def test_install_names_unusable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/file/0 cannot be used"):
        install_shard(tmp_path / "file/0", tmp_path / "prepared", IDENTITY)


@pytest.mark.program
@pytest.mark.covers("checkpoint")
def test_kill_before_the_marker_is_noticed(
    opening: Opening, path: Path, tmp_path: Path, python: Python
) -> None:
    prepared = copy_of(opening, tmp_path / "prepared")
    killed = python(f"""
        opened.store.close()
        os.environ["CQRS_FAILPOINT"] = "checkpoint.installed:1:kill"
        from cqrs_cli import failpoints
        from cqrs_cli.state.shard import install_shard
        failpoints.arm()
        install_shard(Path({str(path)!r}), Path({str(prepared)!r}), IDENTITY, "")
    """)
    assert killed.wait(30) == -9
    opened = opening()
    assert (opened.is_new, opened.reason) == (True, "mark.json is missing")


Change = tuple[str, int]
_CHANGES = st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), max_size=4), max_size=8)


@pytest.mark.covers("checkpoint")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=_CHANGES, cut=st.integers(0, 8))
def test_copy_plus_tail_is_the_shard(
    changes: list[list[Change]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A copy made after any change equals the shard once the later changes are applied to both."""
    folder = tmp_path_factory.mktemp("shard")
    live = open_shard(folder / "live", IDENTITY).store
    apply_all(live, changes[:cut])
    (folder / "copy").mkdir()
    live.copy(folder / "copy")
    open_shard(folder / "made", IDENTITY).store.close()
    made = install_shard(folder / "made", folder / "copy", IDENTITY, "")
    for store in (live, made):
        apply_all(store, changes[cut:])
    assert store_contents(made) == store_contents(live)
    made.close()
    live.close()


def apply_all(store: object, changes: list[list[Change]]) -> None:
    for change in changes:
        states: dict[str, StoredState] = {name: saved(version) for name, version in change}
        remembered = {(name, str(version)): decision() for name, version in change}
        write(store, states=states, remembered=remembered)  # type: ignore[arg-type]


def store_contents(store: object) -> object:
    ids = [recall(store, name, str(n)) for name in "abcd" for n in (1, 2, 3)]  # type: ignore[arg-type]
    return dict(store.items()), store.positions(), ids  # type: ignore[attr-defined]
