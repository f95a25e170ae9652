"""The file of an owner's state, which `cqrs status` on the same machine reads."""

from pathlib import Path

from cqrs_cli.observer import observing, reached
from cqrs_cli.telemetry.status_file import OwnerStatus, StatusFile, read_status


def test_reason_is_valid_until_a_batch(tmp_path: Path) -> None:
    shard = tmp_path / "counter" / "0"
    with observing(StatusFile(shard).listener):
        reached("owner.blocked", reason="a topic is missing")
        assert read_status(shard).blocked == "a topic is missing"
        reached("batch.after", records=[])
    assert read_status(shard) == OwnerStatus()
    assert list(shard.parent.iterdir()) == []


def test_slow_command_and_reason_are_independent(tmp_path: Path) -> None:
    shard = tmp_path / "0"
    with observing(StatusFile(shard).listener):
        reached("owner.blocked", reason="a topic is missing")
        reached("record.slow", offset=7, seconds=6.0)
        reached("owner.ended")
        assert "command 7 is being decided for" in str(read_status(shard).slow)
        reached("record.continued")
    assert read_status(shard) == OwnerStatus()


def test_new_owner_removes_an_old_file(tmp_path: Path) -> None:
    with observing(StatusFile(tmp_path / "0").listener):
        reached("owner.blocked", reason="a topic is missing")
    StatusFile(tmp_path / "0")
    assert list(tmp_path.iterdir()) == []


def test_file_of_a_dead_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "0.status").write_text('{"pid":99999999,"blocked":"a topic is missing"}')
    assert read_status(tmp_path / "0") == OwnerStatus()
