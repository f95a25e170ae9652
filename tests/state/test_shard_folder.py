"""The folder of a shard must be writable and local."""

import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.state.errors import reject_network_file_system
from cqrs_cli.state.shard import open_readonly, open_shard
from cqrs_cli.state.shutdown_marker import MARKER_FILE
from tests.state.shards import IDENTITY, OpenTestShard


def test_file_as_parent_is_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be used") as raised:
        open_shard(tmp_path / "file" / "topic" / "0", IDENTITY)
    assert raised.value.message.startswith(
        f"the state folder {tmp_path / 'file' / 'topic' / '0'} cannot be used"
    )
    assert "state_dir" in raised.value.hint


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder that even root cannot write")
def test_read_only_folder_is_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        open_shard(Path("/sys/kernel/topic/0"), IDENTITY)


@pytest.mark.parametrize("file_system", ["nfs4", "nfs", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_network_file_systems_are_refused(tmp_path: Path, file_system: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x /mnt/far\\040away {file_system} rw 0 0\n")
    with pytest.raises(ConfigurationError, match=f"network file system \\({file_system}\\)"):
        reject_network_file_system(Path("/mnt/far away/state/0"), mounts)
    reject_network_file_system(Path("/mnt/far/state/0"), mounts)


def test_reader_names_unusable_folder(open_test_shard: OpenTestShard, path: Path) -> None:
    open_test_shard().store.close()
    (path / MARKER_FILE).unlink()
    (path / MARKER_FILE).mkdir()
    with pytest.raises(ConfigurationError) as raised:
        open_readonly(path)
    assert raised.value.message == f"the state folder {path} cannot be used (Is a directory)"


def test_shard_on_network_is_refused(open_test_shard: OpenTestShard, path: Path, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/export {tmp_path} nfs4 rw 0 0\n")
    with pytest.raises(ConfigurationError, match="network file system"):
        open_test_shard(mounts=mounts)
    assert not path.parent.exists()


def test_local_mount_inside_network_is_accepted(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("server:/ /mnt nfs rw 0 0\n/dev/vdb /mnt/here ext4 rw 0 0\n")
    reject_network_file_system(Path("/mnt/here/0"), mounts)
    with pytest.raises(ConfigurationError):
        reject_network_file_system(Path("/mnt/0"), mounts)


def test_mount_table_may_be_any_bytes(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"/dev/vda / ext4 rw 0 0\n/dev/vdb /mnt/\xff ext4 rw 0 0\nserver:/ /mnt nfs rw 0 0\n")
    with pytest.raises(ConfigurationError):
        reject_network_file_system(Path("/mnt/0"), mounts)


@pytest.mark.parametrize(
    ("earlier_type", "later_type", "is_refused"), [("nfs", "ext4", False), ("ext4", "nfs", True)]
)
def test_later_mount_hides_the_earlier(
    tmp_path: Path, earlier_type: str, later_type: str, is_refused: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"a /mnt/back\\134slash {earlier_type} rw 0 0\nb /mnt/back\\134slash {later_type} rw 0 0\n"
    )
    reject_network_file_system(Path("/mnt/other/0"), mounts)
    with pytest.raises(ConfigurationError) if is_refused else nullcontext() as raised:
        reject_network_file_system(Path("/mnt/back\\slash/0"), mounts)
    assert not is_refused or (raised and "state_dir" in raised.value.hint)


def test_missing_mount_table_refuses_nothing(tmp_path: Path) -> None:
    reject_network_file_system(tmp_path, tmp_path / "missing")


def test_shard_is_its_owners_only(open_test_shard: OpenTestShard, path: Path) -> None:
    """States contain the data of commands. The mode of a folder that an earlier version created is corrected."""
    open_test_shard().store.close()
    path.chmod(0o755)
    store = open_test_shard().store
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()}
    assert files == {"data.mdb": 0o600, "lock.mdb": 0o600, "mark.json": 0o600}


def test_new_shard_is_hidden_at_once(
    open_test_shard: OpenTestShard, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder and its parents get their mode when they are created, not only after LMDB has created its files."""
    modes: dict[Path, int] = {}
    original_mkdir = Path.mkdir

    def mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        modes.setdefault(self, mode)
        original_mkdir(self, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    open_test_shard()
    assert modes[path] == modes[path.parent] == 0o700


def test_folders_above_a_shard_are_made(tmp_path: Path) -> None:
    open_shard(tmp_path / "state" / "bank" / "0", IDENTITY).store.close()
    assert (tmp_path / "state" / "bank" / "0" / "data.mdb").exists()


def test_empty_folder_becomes_a_shard(open_test_shard: OpenTestShard, path: Path) -> None:
    path.mkdir(parents=True)
    assert open_test_shard().is_new
