import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import msgspec
import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.state import shard
from cqrs_cli.state.errors import refuse_network
from cqrs_cli.state.shard import KEPT_ASIDE, Identity, Opened, open_readonly, open_shard
from cqrs_cli.state.shutdown_marker import ShutdownMarker, boot_id
from tests.state.values import look_up, saved, write

IDENTITY = Identity(
    cluster_id="c1",
    topics={"commands": "t1", "events": "t2", "outcomes": "t3"},
    partition=0,
    partitions=4,
    schema="5ca1ab1e",
    revision=1,
    window_ms=1000,
)

OTHER_IDENTITIES: dict[str, object] = {
    "cluster_id": "c2",
    "topics": {"commands": "t1", "events": "t2", "outcomes": "t4"},
    "partition": 1,
    "partitions": 8,
    "schema": "0",
    "revision": 2,
    "window_ms": 2000,
    "codec": 0,
}

Opening = Callable[..., Opened]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank_account.events" / "0"


@pytest.fixture
def opening(path: Path) -> Iterator[Opening]:
    """Opens the shard of this test; what it opened is closed at the end."""
    opened: list[Opened] = []

    def open_it(identity: Identity = IDENTITY, **options: Callable[[str], None]) -> Opened:
        opened.append(open_shard(path, identity, **options))
        return opened[-1]

    yield open_it
    for one in opened:
        one.store.close()


@pytest.fixture
def python(path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts another process, with `opened` the shard of this test."""
    started: list[subprocess.Popen[str]] = []
    prelude = f"""
import os, signal
from tests.state.test_shard import *
opened = open_shard(Path({str(path)!r}), IDENTITY)
"""

    def start(code: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", prelude + textwrap.dedent(code)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def read_mark(path: Path) -> ShutdownMarker:
    return msgspec.json.decode((path / "mark.json").read_bytes(), type=ShutdownMarker)


def change_mark(path: Path, **changes: object) -> None:
    mark = msgspec.structs.replace(read_mark(path), **changes)
    (path / "mark.json").write_bytes(msgspec.json.encode(mark))


def fill_and_close(opening: Opening) -> None:
    with_one = opening().store
    write(with_one, states={"a": saved()})
    with_one.close()


def fill_and_kill(python: Callable[[str], subprocess.Popen[str]]) -> None:
    killed = python("""
        write(opened.store, states={"a": saved()})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert killed.wait(30) == -9


def test_where_nothing_lies_a_fresh_shard_is_made(opening: Opening) -> None:
    opened = opening()
    assert (opened.fresh, opened.set_aside, opened.reason) == (True, None, "")


def test_a_shard_closed_cleanly_is_opened_again(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    assert read_mark(path).state == "clean"
    again = opening()
    assert (again.fresh, look_up(again.store, "a")) == (False, saved())


def test_a_shard_at_work_is_marked_so_before_anything_is_written(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    before = (path / "data.mdb").stat()
    opening()
    mark = read_mark(path)
    assert (mark.state, mark.boot, mark.changed) == ("working", boot_id(), before.st_mtime_ns)
    assert (mark.device, mark.inode) == (before.st_dev, before.st_ino)


class SyncsTold:
    """An environment of LMDB that tells when it is synced."""

    def __init__(self, env: lmdb.Environment, tell: Callable[[str], None]) -> None:
        self.env = env
        self.tell = tell

    def sync(self, force: bool = False) -> None:
        self.env.sync(force)
        self.tell(f"sync {force}")

    def __getattr__(self, name: str) -> object:
        return getattr(self.env, name)


def test_everything_is_on_disk_before_work_begins_and_before_it_is_called_clean(
    opening: Opening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    lmdb_open = lmdb.open
    monkeypatch.setattr(
        lmdb, "open", lambda *args, **kwargs: SyncsTold(lmdb_open(*args, **kwargs), told.append)
    )
    monkeypatch.setattr(shard, "write_marker", lambda folder, state: told.append(state))
    opening().store.close()
    assert told == ["sync True", "working", "sync True", "clean"]


def test_a_killed_process_costs_nothing(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    fill_and_kill(python)
    opened = opening()
    assert (opened.fresh, look_up(opened.store, "a")) == (False, saved())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"boot": "another"}, "the machine was restarted while it was at work"),
        ({"boot": ""}, "the machine was restarted while it was at work"),
        ({"inode": 1}, "it is a copy of a shard at work"),
        ({"device": 1}, "it is a copy of a shard at work"),
    ],
)
def test_an_unclean_shard_is_trusted_only_on_this_boot_and_file(
    opening: Opening,
    path: Path,
    changes: dict[str, object],
    reason: str,
    python: Callable[[str], subprocess.Popen[str]],
) -> None:
    fill_and_kill(python)
    change_mark(path, **changes)
    opened = opening()
    assert (opened.fresh, opened.reason, opened.store.count()) == (True, reason, 0)
    assert opened.set_aside and (opened.set_aside / "data.mdb").exists()


def test_an_unknown_boot_is_no_boot_to_trust(
    opening: Opening,
    path: Path,
    python: Callable[[str], subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill_and_kill(python)
    change_mark(path, boot="")
    monkeypatch.setattr("cqrs_cli.state.shutdown_marker.boot_id", lambda: "")
    assert opening().fresh


@pytest.mark.parametrize("changes", [{"inode": 1}, {"length": 1}, {"changed": 1}])
def test_a_clean_shard_that_was_replaced_or_written_since_is_set_aside(
    opening: Opening, path: Path, changes: dict[str, object]
) -> None:
    fill_and_close(opening)
    change_mark(path, **changes)
    assert opening().reason == "it is not the file that was closed cleanly"


def test_a_clean_shard_outlives_a_restart_and_a_new_device_number(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    change_mark(path, boot="another", device=1)
    assert not opening().fresh


@pytest.mark.pins("state-is-events")
def test_a_copy_is_not_trusted(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    assert opening().reason == "it is not the file that was closed cleanly"


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"state":"perhaps"}'])
def test_without_a_readable_mark_nothing_is_trusted(
    opening: Opening, path: Path, content: bytes | None
) -> None:
    fill_and_close(opening)
    (path / "mark.json").unlink()
    if content is not None:
        (path / "mark.json").write_bytes(content)
    opened = opening()
    assert opened.fresh
    assert "mark.json" in opened.reason


@pytest.mark.pins("state-is-events")
@pytest.mark.parametrize("length", [0, 100, 5000, 20_000])
def test_a_file_cut_short_is_set_aside(
    opening: Opening, path: Path, python: Callable[[str], subprocess.Popen[str]], length: int
) -> None:
    fill_and_kill(python)
    os.truncate(path / "data.mdb", length)
    opened = opening()
    assert opened.fresh
    assert opened.set_aside


@pytest.mark.pins("state-is-events")
@pytest.mark.parametrize(("field", "value"), OTHER_IDENTITIES.items())
def test_a_shard_of_another_identity_is_set_aside(opening: Opening, field: str, value: object) -> None:
    fill_and_close(opening)
    opened = opening(msgspec.structs.replace(IDENTITY, **{field: value}))
    assert opened.fresh
    assert opened.reason == f"{field} was {getattr(IDENTITY, field)} and is {value}"
    assert opened.store.count() == 0


def test_every_member_of_the_identity_is_tested() -> None:
    assert OTHER_IDENTITIES.keys() == set(Identity.__struct_fields__)


def test_what_is_set_aside_is_told_and_named_by_its_reason(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    told: list[str] = []
    opened = opening(msgspec.structs.replace(IDENTITY, revision=2), note=told.append)
    assert opened.set_aside and opened.set_aside.parent == path.parent
    assert opened.set_aside.name.endswith("Z-revision-was-1-and-is-2")
    assert told == [
        f"state in {path} set aside as {opened.set_aside.name}, to be rebuilt from the log: "
        "revision was 1 and is 2"
    ]


def test_only_the_latest_set_aside_are_kept_and_removing_is_told(opening: Opening, path: Path) -> None:
    told: list[str] = []
    aside = []
    for revision in range(KEPT_ASIDE + 3):
        opened = opening(msgspec.structs.replace(IDENTITY, revision=revision), note=told.append)
        aside.append(opened.set_aside)
        opened.store.close()
    assert sorted(path.parent.glob("0.aside-*")) == aside[-KEPT_ASIDE:]
    assert [text for text in told if text.startswith("removed")] == [
        f"removed {old}, set aside earlier" for old in aside[1:-KEPT_ASIDE]
    ]


def test_only_the_last_to_close_marks_it_clean(
    opening: Opening, path: Path, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    other = python("""
        print("open", flush=True)
        input()
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    opening().store.close()
    assert read_mark(path).state == "working"
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert read_mark(path).state == "clean"


def test_whoever_has_a_shard_open_keeps_it_when_it_is_set_aside(
    opening: Opening, path: Path, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    other = python("""
        print("open", flush=True)
        input()
        write(opened.store, states={"old": saved()})
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    successor = opening(msgspec.structs.replace(IDENTITY, revision=2))
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert successor.set_aside
    assert read_mark(successor.set_aside).state == "clean"
    assert read_mark(path).state == "working"
    assert successor.store.count() == 0


def test_processes_that_open_at_once_make_one_shard(
    opening: Opening, path: Path, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    fill_and_close(opening)
    change_mark(path, inode=1)
    racing = [python("print(opened.fresh, flush=True); input()") for _ in range(4)]
    assert sorted(r.stdout.readline() for r in racing if r.stdout) == ["False\n"] * 3 + ["True\n"]
    assert len(list(path.parent.iterdir())) == 2


def test_one_that_judges_for_ever_is_not_waited_for_for_ever(
    opening: Opening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "_PATIENCE", 0.05)
    path.parent.mkdir()
    with shard._judging(path), pytest.raises(UnavailableError, match="opening or closing"):
        opening()


def test_a_shard_opens_once_in_a_process(opening: Opening) -> None:
    opening()
    with pytest.raises(ConfigurationError, match="open in this process already"):
        opening()


def test_another_process_looks_without_disturbing(
    opening: Opening, path: Path, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    owner = python("""
        write(opened.store, states={"a": saved()})
        print("written", flush=True)
        input()
        opened.store.close()
    """)
    assert owner.stdin and owner.stdout
    assert owner.stdout.readline() == "written\n"
    look = open_readonly(path)
    assert look is not None
    assert dict(look.items()) == {"a": saved()}
    print(file=owner.stdin, flush=True)
    assert owner.wait(30) == 0
    look.close()
    assert read_mark(path).state == "clean"
    assert not opening().fresh


def test_there_is_nothing_to_look_at_where_nothing_can_be_trusted(opening: Opening, path: Path) -> None:
    assert open_readonly(path) is None
    fill_and_close(opening)
    change_mark(path, inode=1)
    assert open_readonly(path) is None
    assert path.exists()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be used") as raised:
        open_shard(tmp_path / "file" / "topic" / "0", IDENTITY)
    assert "--state-dir" in raised.value.hint


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder that even root cannot write")
def test_a_read_only_folder_is_a_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        open_shard(Path("/sys/kernel/topic/0"), IDENTITY)


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_network_file_systems_are_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x /mnt/far\\040away {kind} rw 0 0\n")
    with pytest.raises(ConfigurationError, match=f"network file system \\({kind}\\)"):
        refuse_network(Path("/mnt/far away/state/0"), mounts)
    refuse_network(Path("/mnt/far/state/0"), mounts)


def test_no_shard_is_opened_on_a_network_file_system(
    opening: Opening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cqrs_cli.state.errors._file_system", lambda path, mounts: "nfs4")
    with pytest.raises(ConfigurationError, match="network file system"):
        opening()
    assert not path.parent.exists()


def test_a_local_mount_inside_a_network_one_is_not_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("server:/ /mnt nfs rw 0 0\n/dev/vdb /mnt/here ext4 rw 0 0\n")
    refuse_network(Path("/mnt/here/0"), mounts)
    with pytest.raises(ConfigurationError):
        refuse_network(Path("/mnt/0"), mounts)


def test_without_a_table_of_mounts_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network(tmp_path, tmp_path / "missing")
