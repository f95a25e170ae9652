"""`verify --incremental`: the folder from which verifies continue, and the reasons to refuse it."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, UnavailableError, UsageError
from cqrs_cli.jobs.verify.driver import VerifySummary, checkpoint_scope, verify_in_process
from cqrs_cli.scans.verify.checkpoint_files import load_checkpoint, write_checkpoint_file
from cqrs_cli.scans.verify.checkpoints import HEAD_FILE, CheckpointScope, new_checkpoint
from cqrs_cli.scans.verify.plan import plan_verify
from tests.jobs.verify.verification import verify
from tests.proof.history import History, random_commands
from tests.proof.incremental import LOGS, IncrementalVerifier, verify_ranges
from tests.support import ROOT
from tests.support.commands import mixed_commands
from tests.support.foreign_records import append_records
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.topic_loss import recreate_topics
from tests.support.waiting import eventually

SCOPE = CheckpointScope(
    aggregate="tally",
    cluster="c",
    topics={"tally.commands": "id"},
    partitions=1,
    partitioner="murmur2",
    dedup_window=1000,
    longest_window=1000,
)


def generations(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("generation-*"))


def test_new_checkpoint_replaces_the_old(tmp_path: Path) -> None:
    with new_checkpoint(tmp_path / "proved", SCOPE) as first:
        assert first.earlier is None
    with new_checkpoint(tmp_path / "proved", SCOPE) as second:
        assert second.earlier == first.new
    assert generations(tmp_path / "proved") == [second.new.name]


def test_failed_verify_leaves_the_old(tmp_path: Path) -> None:
    with new_checkpoint(tmp_path, SCOPE) as first:
        pass
    with pytest.raises(RuntimeError), new_checkpoint(tmp_path, SCOPE):
        raise RuntimeError
    assert len(generations(tmp_path)) == 2
    with new_checkpoint(tmp_path, SCOPE) as third:
        assert (third.earlier, generations(tmp_path)) == (first.new, [first.new.name, third.new.name])


KILLED_VERIFY = """
import os, signal, sys
from pathlib import Path
from cqrs_cli.scans.verify.checkpoint_files import create_checkpoint_folder
from cqrs_cli.scans.verify.checkpoints import new_checkpoint
from tests.jobs.verify.test_incremental import SCOPE
with new_checkpoint(Path(sys.argv[1]), SCOPE) as checkpoints:
    create_checkpoint_folder(checkpoints.new / "0", None)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.program
def test_killed_verify_leaves_the_old(tmp_path: Path) -> None:
    with new_checkpoint(tmp_path, SCOPE) as first:
        (first.new / "kept").touch()
    head = (tmp_path / HEAD_FILE).read_bytes()
    process = subprocess.run([sys.executable, "-c", KILLED_VERIFY, str(tmp_path)], cwd=ROOT, check=False)
    assert (process.returncode, len(generations(tmp_path))) == (-signal.SIGKILL, 2)
    assert (tmp_path / HEAD_FILE).read_bytes() == head
    with new_checkpoint(tmp_path, SCOPE) as third:
        assert (third.earlier, [path.name for path in first.new.iterdir()]) == (first.new, ["kept"])
        assert list(third.new.iterdir()) == []


def test_draft_of_a_killed_verify_is_deleted(tmp_path: Path) -> None:
    """The previous verify died while it wrote its first or its next `verified.json`."""
    for _ in range(2):
        draft = tmp_path / f".{HEAD_FILE}.{'0' * 32}"
        draft.touch()
        with new_checkpoint(tmp_path, SCOPE):
            assert not draft.exists()


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, halve, empty, Path.unlink])
@pytest.mark.parametrize("file", ["carried", *(f"{name}/data.mdb" for name in ("versions", *LOGS))])
def test_damaged_file_is_named(
    checkpoint_folder: Path, tmp_path: Path, file: str, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(checkpoint_folder, tmp_path / "0")
    load_checkpoint(tmp_path / "0")
    damage(tmp_path / "0" / file)
    with pytest.raises(ConfigurationError, match=re.escape(f"{tmp_path / '0'}") + ".*" + file) as raised:
        load_checkpoint(tmp_path / "0")
    assert raised.value.hint.startswith("choose a new folder")


@pytest.fixture(scope="module")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition's folder as a verify leaves it."""
    folder = tmp_path_factory.mktemp("left")
    history = History(random_commands(7))
    IncrementalVerifier(history, folder).verify(verify_ranges(history, [20], (3, 3, 2, 1))[0])
    return folder / "1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topics": {"tally.commands": "new"}}, "topic tally.commands was recreated"),
        ({"aggregate": "count"}, "its aggregate was tally, and is now count"),
        (
            {"topics": {"a.tally.commands": "id"}},
            "its topics was tally.commands, and is now a.tally.commands",
        ),
        ({"partitions": 2}, "its partitions was 1, and is now 2"),
        ({"dedup_window": 5}, "its dedup_window was 1000 ms, and is now 5 ms"),
    ],
)
def test_folder_of_another_scope_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with new_checkpoint(tmp_path, SCOPE):
        pass
    with (
        pytest.raises(UsageError, match=message),
        new_checkpoint(tmp_path, msgspec.structs.replace(SCOPE, **changes)),
    ):
        pass
    assert generations(tmp_path) == ["generation-1"]


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(UsageError, match="it holds letters"), new_checkpoint(tmp_path, SCOPE):
        pass
    (tmp_path / HEAD_FILE).write_text("?")
    with pytest.raises(UsageError, match="cannot be read"), new_checkpoint(tmp_path, SCOPE):
        pass
    with (
        pytest.raises(ConfigurationError, match="cannot be used"),
        new_checkpoint(tmp_path / "letters", SCOPE),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters", HEAD_FILE]


def test_two_verifies_are_refused(tmp_path: Path) -> None:
    with (
        new_checkpoint(tmp_path, SCOPE),
        pytest.raises(UnavailableError, match="another verify"),
        new_checkpoint(tmp_path, SCOPE),
    ):
        pass


def verify_incrementally(harness: TopicHarness) -> VerifySummary:
    """Run a verify that continues the last one."""
    eventually(lambda: all(harness.is_stable(kind) for kind in ("outcomes", "events", "dead-letters")))
    plan = plan_verify(harness.connection, harness.topics, harness.settings)
    with new_checkpoint(harness.folder / "proved", checkpoint_scope(plan)) as checkpoints:
        return verify_in_process(replace(plan, checkpoints=checkpoints))


@pytest.mark.kafka
@pytest.mark.covers("verifiable")
def test_verify_continues_from_the_last(decided_bank: TopicHarness) -> None:
    assert verify_incrementally(decided_bank).new_total("commands") == 300
    decided_bank.send(*mixed_commands(50, seed=2))
    run_plan(decided_bank.plan())
    report = verify_incrementally(decided_bank)
    assert (report.violations, dict(report.restart_reasons), report.new_total("commands")) == ([], {}, 50)
    assert report.reports == verify(decided_bank).reports


@pytest.mark.kafka
@pytest.mark.covers("verifiable")
def test_found_violation_is_kept(decided_bank: TopicHarness) -> None:
    """A new record for a verified command makes verify read its partition from the beginning, once."""
    verify_incrementally(decided_bank)
    append_records(decided_bank, "outcomes", decided_bank.records("outcomes")[7])
    report = verify_incrementally(decided_bank)
    assert (report.violation_count, list(report.restart_reasons)) == (1, [0])
    assert report.reports == verify(decided_bank).reports
    next_report = verify_incrementally(decided_bank)
    assert (
        next_report.violations,
        next_report.new_total("violation_count"),
        dict(next_report.restart_reasons),
    ) == (
        report.violations,
        0,
        {},
    )


@pytest.mark.kafka
def test_recreated_topic_is_refused(decided_bank: TopicHarness) -> None:
    verify_incrementally(decided_bank)
    recreate_topics(decided_bank, "outcomes")
    with pytest.raises(UsageError, match=f"topic {decided_bank.topics.outcomes} was recreated"):
        verify_incrementally(decided_bank)


@pytest.mark.kafka
def test_shortened_log_is_refused(decided_bank: TopicHarness) -> None:
    verify_incrementally(decided_bank)
    (generation,) = (decided_bank.folder / "proved").glob("generation-*")
    checkpoint = load_checkpoint(generation / "1")
    checkpoint_beyond_end = msgspec.structs.replace(
        checkpoint, read_until={**checkpoint.read_until, "events": 10**6}
    )
    write_checkpoint_file(generation / "1", checkpoint_beyond_end)
    with pytest.raises(
        ContradictionError, match="has read it up to 1000000: records were deleted at its end"
    ):
        verify_incrementally(decided_bank)
    assert generation.is_dir()
