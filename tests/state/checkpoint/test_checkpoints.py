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
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints, DamagedCheckpointError
from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.shard import install_shard, open_shard
from cqrs_cli.storage.folder import open_folder
from tests.state.checkpoint.folders import FullFolder, InChunks
from tests.state.shards import IDENTITY, MANIFEST, OpenTestShard, StartPython
from tests.state.values import decision, find_decision, find_state, stored_state, write


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.objects)])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Checkpoints in the folder `store/0`, on a disk or in an object store."""
    if request.param == "bucket":
        bucket = request.getfixturevalue("bucket")
        (tmp_path / "store").symlink_to(bucket.folder / "store")
        return Checkpoints(open_folder(bucket.uri("store/0"), tmp_path))
    return Checkpoints(open_folder("store/0", tmp_path))


def make_manifest(checkpoints: Checkpoints) -> Callable[[int, str], Manifest]:
    """Return a function that makes the next manifest from the size and the digest of the data."""
    written_at = checkpoints.next_time(checkpoints.newest())
    return lambda size, digest: replace(MANIFEST, written=written_at, size=size, sha256=digest)


def write_checkpoint(checkpoints: Checkpoints, tmp_path: Path, content: bytes, keep: int = 2) -> Manifest:
    data = tmp_path / "data"
    data.write_bytes(content)
    return checkpoints.write(data, make_manifest(checkpoints), keep)


def download_checkpoint(checkpoints: Checkpoints, manifest: Manifest, tmp_path: Path) -> bytes:
    checkpoints.download(manifest, tmp_path / "into", lambda progress: None)
    return (tmp_path / "into").read_bytes()


@pytest.mark.program
@pytest.mark.covers("checkpoint")
def test_newest_checkpoints_keep_their_data(checkpoints: Checkpoints, tmp_path: Path) -> None:
    manifests = [write_checkpoint(checkpoints, tmp_path, bytes([n]) * 9) for n in range(4)]
    assert checkpoints.manifests() == [manifests[3], manifests[2]]
    assert download_checkpoint(checkpoints, manifests[3], tmp_path) == b"\x03" * 9
    assert download_checkpoint(checkpoints, manifests[2], tmp_path) == b"\x02" * 9
    assert len(checkpoints.folder.files()) == 4


def test_data_of_torn_uploads_is_deleted(checkpoints: Checkpoints, tmp_path: Path) -> None:
    checkpoints.folder.write("000000000000001-torn.mdb", iter([b"half"]))
    manifest = write_checkpoint(checkpoints, tmp_path, b"whole")
    assert [file.name for file in checkpoints.folder.files()] == [manifest.encoded()[0], manifest.data_file]


def test_times_rise_if_the_clock_falls(checkpoints: Checkpoints) -> None:
    later_manifest = replace(MANIFEST, written=9_999_999_999_999)
    assert checkpoints.next_time(later_manifest) == later_manifest.written + 1
    start_ms = time.time_ns() // 1_000_000
    assert start_ms <= checkpoints.next_time(MANIFEST) <= time.time_ns() // 1_000_000


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("damaged_data", [b"", b"twelve byteX", b"twelve", b"twelve bytes and more"])
def test_damaged_data_is_refused(checkpoints: Checkpoints, tmp_path: Path, damaged_data: bytes) -> None:
    manifest = write_checkpoint(checkpoints, tmp_path, b"twelve bytes")
    (tmp_path / "store/0" / manifest.data_file).write_bytes(damaged_data)
    with pytest.raises(DamagedCheckpointError, match="the checkpoint of"):
        download_checkpoint(checkpoints, manifest, tmp_path)


@pytest.mark.covers("checkpoint")
def test_chunks_are_counted_together(tmp_path: Path) -> None:
    chunks, progress = [b"twelve ", b"bytes"], list[int]()
    checkpoints = Checkpoints(InChunks(tmp_path / "store/0", chunks))
    manifest = write_checkpoint(checkpoints, tmp_path, b"twelve bytes")
    checkpoints.download(manifest, tmp_path / "into", progress.append)
    assert ((tmp_path / "into").read_bytes(), progress) == (b"twelve bytes", [7, 12])
    chunks.append(b"and more")
    with pytest.raises(DamagedCheckpointError, match="has 20 of 12 bytes"):
        download_checkpoint(checkpoints, manifest, tmp_path)


@pytest.mark.covers("checkpoint")
def test_damaged_manifest_is_skipped(checkpoints: Checkpoints, tmp_path: Path) -> None:
    """A damaged manifest is skipped, and so is a manifest that its owner has deleted since the listing."""
    manifest, second_manifest = (write_checkpoint(checkpoints, tmp_path, text) for text in (b"1", b"2"))
    damaged_file, removed_file = (
        second_manifest.encoded()[0],
        write_checkpoint(checkpoints, tmp_path, b"3", keep=3).encoded()[0],
    )
    (tmp_path / "store/0" / damaged_file).write_bytes(b"{}")
    notes: list[str] = []

    def note(text: str) -> None:
        """Delete the newest manifest while the others are read."""
        notes.append(text)
        (tmp_path / "store/0" / removed_file).unlink(missing_ok=True)

    with observing(message_listener(note)):
        assert checkpoints.manifests() == [manifest]
    assert damaged_file in notes[0] and "damaged" in notes[0] and removed_file in notes[1]


@pytest.mark.covers("checkpoint")
def test_failed_upload_leaves_no_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(FullFolder(tmp_path / "store/0"))
    with pytest.raises(CqrsError, match="full"):
        write_checkpoint(checkpoints, tmp_path, b"1")
    assert checkpoints.newest() is None


def test_temporary_folder_removes_leftovers(path: Path) -> None:
    with temporary_folder(path, "copy") as work_folder:
        leftover = path.with_name("0.copy-999999")
        leftover.mkdir()
        (leftover / "data.mdb").write_bytes(b"half")
        other_shard = path.with_name("1.copy-999999")
        other_shard.mkdir()
        with temporary_folder(path, "fetch"):
            assert work_folder.exists()
        with temporary_folder(path.with_name("01"), "copy"):
            assert leftover.exists()
        assert work_folder.exists()
    with temporary_folder(path, "copy"):
        pass
    assert [folder.name for folder in sorted(path.parent.iterdir())] == ["1.copy-999999"]


def copy_shard(open_test_shard: OpenTestShard, into: Path) -> Path:
    """Return a folder with a copy of a shard with one aggregate, as a checkpoint provides it."""
    store = open_test_shard().store
    store.take_ownership("somebody", "")
    write(store, states={"a": stored_state()})
    into.mkdir()
    store.copy(into)
    store.close()
    return into


def test_copy_names_the_shard(open_test_shard: OpenTestShard, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"the state folder {path} cannot be used"):
        open_test_shard().store.copy(tmp_path / "missing")


@pytest.mark.covers("checkpoint")
def test_installed_copy_has_no_owner(open_test_shard: OpenTestShard, path: Path, tmp_path: Path) -> None:
    prepared = copy_shard(open_test_shard, tmp_path / "prepared")
    shutil.rmtree(path)
    open_test_shard().store.close()
    store = install_shard(path, prepared, IDENTITY)
    assert (find_state(store, "a"), store.token(), store.positions().commands) == (stored_state(), "", 1)
    store.close()
    reopened = open_test_shard()
    assert (reopened.is_new, find_state(reopened.store, "a")) == (False, stored_state())
    assert [folder.name for folder in path.parent.iterdir()] == ["0"]


@pytest.mark.covers("checkpoint")
def test_copy_of_another_log_changes_nothing(
    open_test_shard: OpenTestShard, path: Path, tmp_path: Path
) -> None:
    prepared = copy_shard(open_test_shard, tmp_path / "prepared")
    with pytest.raises(CorruptError, match="differs: revision was 1 and is 2") as raised:
        install_shard(path, prepared, replace(IDENTITY, revision=2), "")
    assert raised.value.hint == REBUILD_HINT
    assert find_state(open_test_shard().store, "a") == stored_state()


def test_replaced_shard_is_quarantined(open_test_shard: OpenTestShard, path: Path, tmp_path: Path) -> None:
    prepared = copy_shard(open_test_shard, tmp_path / "prepared")
    notes: list[str] = []
    with observing(message_listener(notes.append)):
        install_shard(path, prepared, IDENTITY, "rebuilt").close()
    (aside,) = path.parent.glob("0.aside-*-rebuilt")
    assert notes == [f"state in {path} quarantined for a new shard: rebuilt ({aside.name})"]


def test_install_names_unusable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/file/0 cannot be used"):
        install_shard(tmp_path / "file/0", tmp_path / "prepared", IDENTITY)


@pytest.mark.program
@pytest.mark.covers("checkpoint")
def test_kill_before_the_marker_is_noticed(
    open_test_shard: OpenTestShard, path: Path, tmp_path: Path, start_python: StartPython
) -> None:
    prepared = copy_shard(open_test_shard, tmp_path / "prepared")
    process = start_python(f"""
        opened.store.close()
        os.environ["CQRS_FAILPOINT"] = "checkpoint.installed:1:kill"
        from cqrs_cli import failpoints
        from cqrs_cli.state.shard import install_shard
        failpoints.arm()
        install_shard(Path({str(path)!r}), Path({str(prepared)!r}), IDENTITY, "")
    """)
    assert process.wait(30) == -9
    shard = open_test_shard()
    assert (shard.is_new, shard.reason) == (True, "mark.json is missing")


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
    original = open_shard(folder / "live", IDENTITY).store
    apply_all(original, changes[:cut])
    (folder / "copy").mkdir()
    original.copy(folder / "copy")
    open_shard(folder / "made", IDENTITY).store.close()
    copied = install_shard(folder / "made", folder / "copy", IDENTITY, "")
    for store in (original, copied):
        apply_all(store, changes[cut:])
    assert store_contents(copied) == store_contents(original)
    copied.close()
    original.close()


def apply_all(store: object, changes: list[list[Change]]) -> None:
    for change in changes:
        states: dict[str, StoredState] = {name: stored_state(version) for name, version in change}
        dedup_entries = {(name, str(version)): decision() for name, version in change}
        write(store, states=states, dedup_entries=dedup_entries)  # type: ignore[arg-type]


def store_contents(store: object) -> object:
    ids = [find_decision(store, name, str(n)) for name in "abcd" for n in (1, 2, 3)]  # type: ignore[arg-type]
    return dict(store.items()), store.positions(), ids  # type: ignore[attr-defined]
