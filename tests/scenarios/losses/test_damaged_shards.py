"""The owner of a damaged shard recovers or reports the damage; it never decides wrongly."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, TakenOverError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.state.lmdb_store import LmdbStore
from tests.support.commands import command, increment_commands, mixed_commands
from tests.support.disks import limit_file_size
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error, run_plan_task
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

PAGE = 4096
KILL_WHILE_CLOSING = "shard.closing:1:kill"


def invert_pages(path: Path, start: int, end: int | None = None) -> None:
    """Flip every bit of these pages."""
    data = path.read_bytes()
    part = data[start * PAGE : None if end is None else end * PAGE]
    with path.open("r+b") as file:
        file.seek(start * PAGE)
        file.write(bytes(255 - byte for byte in part))


def zero_pages(path: Path, start: int, end: int) -> None:
    with path.open("r+b") as file:
        file.seek(start * PAGE)
        file.write(bytes((end - start) * PAGE))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "first head zeroed": lambda path: zero_pages(path, 0, 1),
    "second head zeroed": lambda path: zero_pages(path, 1, 2),
    "both heads zeroed": lambda path: zero_pages(path, 0, 2),
    "all pages after the heads flipped": lambda path: invert_pages(path, 2),
    "all pages after the heads zeroed": lambda path: zero_pages(path, 2, path.stat().st_size // PAGE),
    "cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE),
}


@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize(
    "damage",
    sample_cases(DAMAGE, "both heads zeroed", "all pages after the heads flipped", "cut in the middle"),
)
def test_killed_owners_damaged_shard_is_rebuilt(bank: TopicHarness, damage: str) -> None:
    commands = list(mixed_commands(900))
    bank.send(*commands[:600])
    assert OwnerProcess(bank.plan(), KILL_WHILE_CLOSING).was_killed()
    assert bank.shutdown_marker() == bank.shutdown_marker(partition=1) == "working"
    DAMAGE[damage](bank.shard_path() / "data.mdb")
    bank.send(*commands[600:])
    damaged_result, intact_result = run_plan_task(bank.plan())
    assert (damaged_result.error, intact_result.error) == (None, None)
    assert (
        "quarantined" in damaged_result.notes[0] and "damaged" in damaged_result.notes[0]
    ) or "bytes" in damaged_result.notes[0]
    assert intact_result.notes == ()
    (quarantined,) = bank.shard_path().parent.glob("0.aside-*")
    assert (quarantined / "data.mdb").exists()
    bank.check()


@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize("first", sample_cases(range(2, 30, 3), 2, 11))
def test_flipped_pages_change_no_decision(bank: TopicHarness, first: int) -> None:
    commands = list(mixed_commands(900))
    bank.send(*commands[:600])
    assert OwnerProcess(bank.plan(), KILL_WHILE_CLOSING).was_killed()
    invert_pages(bank.shard_path() / "data.mdb", first, first + 3)
    bank.send(*commands[600:])
    run_plan(bank.plan())
    bank.check()


def test_swapped_shards_are_rebuilt(bank: TopicHarness) -> None:
    commands = list(mixed_commands(900))
    bank.send(*commands[:600])
    run_plan(bank.plan())
    path, other, temporary = bank.shard_path(), bank.shard_path(partition=1), bank.shard_path(partition=2)
    path.rename(temporary)
    other.rename(path)
    temporary.rename(other)
    bank.send(*commands[600:])
    notes = [result.notes[0] for result in run_plan_task(bank.plan())]
    assert "partition was 1 and is 0" in notes[0] and "partition was 0 and is 1" in notes[1]
    bank.check()


def test_another_applications_shard_is_rebuilt(
    bank: TopicHarness, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    other_bank = TopicHarness(connection, f"{prefix}other.", tmp_path, "bank_account", partitions=2)
    for harness in (bank, other_bank):
        harness.send(*mixed_commands(300))
        run_plan(harness.plan())
    shutil.rmtree(bank.shard_path())
    other_bank.shard_path().rename(bank.shard_path())
    bank.send(*list(mixed_commands(600))[300:])
    result, _ = run_plan_task(bank.plan())
    assert "topics was" in result.notes[0]
    bank.check()


@pytest.mark.covers("state-is-events")
def test_an_old_shard_catches_up(bank: TopicHarness) -> None:
    commands = list(mixed_commands(900))
    bank.send(*commands[:300])
    run_plan(bank.plan())
    files = {path: (path.read_bytes(), path.stat()) for path in bank.shard_path().iterdir()}
    bank.send(*commands[300:600])
    run_plan(bank.plan())
    for path, (data, status) in files.items():
        with path.open("r+b") as file:
            file.truncate(file.write(data))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    bank.send(*commands[600:])
    run_plan(bank.plan())
    bank.check()


def test_deleted_state_folder_costs_a_rebuild(counters: TopicHarness) -> None:
    owner = OwnerProcess(counters.plan(once=False))
    counters.send(*increment_commands(5))
    eventually(lambda: len(counters.outcomes()) == 5)
    shutil.rmtree(counters.folder / "state")
    counters.send(*increment_commands(5, first=5))
    eventually(lambda: len(counters.outcomes()) == 10)
    run_plan(counters.plan())
    assert isinstance(owner.error(), TakenOverError)
    counters.check()


def test_a_full_map_grows(bank: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    small_map = {**(LmdbStore.__init__.__kwdefaults__ or {}), "map_size": 128 << 10}
    monkeypatch.setattr(LmdbStore.__init__, "__kwdefaults__", small_map)
    bank.send(*(command("bank_account.Open", f"a{n}", "o", {"owner": "x" * 1000}) for n in range(1000)))
    run_plan(bank.plan())
    assert (bank.shard_path() / "data.mdb").stat().st_size > 256 << 10
    bank.check()


@pytest.mark.covers("state-is-events")
def test_full_disk_stops_the_owner_clearly(
    counters: TopicHarness,
) -> None:
    counters.send(
        *increment_commands(3), *(s for n in range(1500) for s in increment_commands(1, "s" * 400 + str(n)))
    )
    plan = counters.plan()
    with limit_file_size(1 << 20):
        error = run_plan_for_error(plan)
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "disk is full" in error.message and "free disk space" in error.hint
    run_plan(counters.plan())
    counters.check()


@pytest.fixture
def disk(counters: TopicHarness) -> Iterator[Path]:
    """A file system of 1 MB for the state."""
    folder = counters.folder / "state"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True
    ).returncode:
        pytest.skip("may not mount")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_grown_disk_lets_the_owner_continue(counters: TopicHarness, disk: Path) -> None:
    counters.send(*(s for n in range(1500) for s in increment_commands(1, "s" * 400 + str(n))))
    error = run_plan_for_error(counters.plan())
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "free disk space" in error.hint
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    run_plan(counters.plan())
    counters.check()


def test_read_only_shard_stops_owner_first(counters: TopicHarness, disk: Path) -> None:
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    counters.send(*increment_commands(3, first=3))
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    error = run_plan_for_error(counters.plan())
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "Read-only" in error.message and len(counters.outcomes()) == 3
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    run_plan(counters.plan())
    counters.check()
