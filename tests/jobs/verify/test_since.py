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
from cqrs_cli.jobs.verify.driver import VerifySummary, checkpoint_scope, plan_verify, verify_in_process
from cqrs_cli.scans.verify.checkpoint_files import load_checkpoint, write_checkpoint_file
from cqrs_cli.scans.verify.checkpoints import HEAD_FILE, CheckpointScope, new_generation
from tests.jobs.verify.verification import verified
from tests.proof.history import History, drawn
from tests.proof.incremental import LOGS, Pieces, looks
from tests.support import ROOT
from tests.support.commands import mixture
from tests.support.foreign_records import append
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.topic_loss import remake
from tests.support.waiting import eventually

PROVED = CheckpointScope(
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


def test_new_generation_replaces_the_old(tmp_path: Path) -> None:
    with new_generation(tmp_path / "proved", PROVED) as first:
        assert first.before is None
    with new_generation(tmp_path / "proved", PROVED) as second:
        assert second.before == first.after
    assert generations(tmp_path / "proved") == [second.after.name]


def test_failed_verify_leaves_the_old(tmp_path: Path) -> None:
    with new_generation(tmp_path, PROVED) as first:
        pass
    with pytest.raises(RuntimeError), new_generation(tmp_path, PROVED):
        raise RuntimeError
    assert len(generations(tmp_path)) == 2
    with new_generation(tmp_path, PROVED) as again:
        assert (again.before, generations(tmp_path)) == (first.after, [first.after.name, again.after.name])


KILLED = """
import os, signal, sys
from pathlib import Path
from cqrs_cli.scans.verify.checkpoint_files import create_checkpoint_folder
from cqrs_cli.scans.verify.checkpoints import new_generation
from tests.jobs.verify.test_since import PROVED
with new_generation(Path(sys.argv[1]), PROVED) as work:
    create_checkpoint_folder(work.after / "0", None)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.program
def test_killed_verify_leaves_the_old(tmp_path: Path) -> None:
    with new_generation(tmp_path, PROVED) as first:
        (first.after / "kept").touch()
    head = (tmp_path / HEAD_FILE).read_bytes()
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert (died.returncode, len(generations(tmp_path))) == (-signal.SIGKILL, 2)
    assert (tmp_path / HEAD_FILE).read_bytes() == head
    with new_generation(tmp_path, PROVED) as again:
        assert (again.before, [path.name for path in first.after.iterdir()]) == (first.after, ["kept"])
        assert list(again.after.iterdir()) == []


def test_draft_of_a_killed_verify_goes(tmp_path: Path) -> None:
    """The previous verify died while it wrote its first or its next `verified.json`."""
    for _ in range(2):
        draft = tmp_path / f".{HEAD_FILE}.{'0' * 32}"
        draft.touch()
        with new_generation(tmp_path, PROVED):
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
def test_damaged_file_is_named(left: Path, tmp_path: Path, file: str, damage: Callable[[Path], None]) -> None:
    shutil.copytree(left, tmp_path / "0")
    load_checkpoint(tmp_path / "0")
    damage(tmp_path / "0" / file)
    with pytest.raises(ConfigurationError, match=re.escape(f"{tmp_path / '0'}") + ".*" + file) as caught:
        load_checkpoint(tmp_path / "0")
    assert caught.value.hint.startswith("choose a new folder")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition's folder as a verify leaves it."""
    folder = tmp_path_factory.mktemp("left")
    history = History(drawn(7))
    Pieces(history, folder).verify(looks(history, [20], (3, 3, 2, 1))[0])
    return folder / "1"


@pytest.mark.parametrize(
    ("change", "why"),
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
def test_folder_of_others_is_refused(tmp_path: Path, change: dict[str, object], why: str) -> None:
    with new_generation(tmp_path, PROVED):
        pass
    with (
        pytest.raises(UsageError, match=why),
        new_generation(tmp_path, msgspec.structs.replace(PROVED, **change)),
    ):
        pass
    assert generations(tmp_path) == ["generation-1"]


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(UsageError, match="it holds letters"), new_generation(tmp_path, PROVED):
        pass
    (tmp_path / HEAD_FILE).write_text("?")
    with pytest.raises(UsageError, match="cannot be read"), new_generation(tmp_path, PROVED):
        pass
    with (
        pytest.raises(ConfigurationError, match="cannot be used"),
        new_generation(tmp_path / "letters", PROVED),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters", HEAD_FILE]


def test_two_verifies_are_refused(tmp_path: Path) -> None:
    with (
        new_generation(tmp_path, PROVED),
        pytest.raises(UnavailableError, match="another verify"),
        new_generation(tmp_path, PROVED),
    ):
        pass


def since(harness: TopicHarness) -> VerifySummary:
    """Run a verify that continues the last one."""
    eventually(lambda: all(harness.settled(kind) for kind in ("outcomes", "events", "dead-letters")))
    plan = plan_verify(harness.connection, harness.topics, harness.settings)
    with new_generation(harness.folder / "proved", checkpoint_scope(plan)) as generations:
        return verify_in_process(replace(plan, since=generations))


@pytest.mark.kafka
@pytest.mark.covers("verifiable")
def test_verify_goes_on_from_the_last(decided: TopicHarness) -> None:
    assert since(decided).new("commands") == 300
    decided.send(*mixture(50, seed=2))
    quietly(decided.plan())
    report = since(decided)
    assert (report.violations, dict(report.again), report.new("commands")) == ([], {}, 50)
    assert report.reports == verified(decided).reports


@pytest.mark.kafka
@pytest.mark.covers("verifiable")
def test_found_violation_is_kept(decided: TopicHarness) -> None:
    """A new record for a verified command makes verify read its partition from the beginning, once."""
    since(decided)
    append(decided, "outcomes", decided.records("outcomes")[7])
    report = since(decided)
    assert (report.violation_count, list(report.again)) == (1, [0])
    assert report.reports == verified(decided).reports
    next_report = since(decided)
    assert (next_report.violations, next_report.new("violation_count"), dict(next_report.again)) == (
        report.violations,
        0,
        {},
    )


@pytest.mark.kafka
def test_topic_made_again_is_refused(decided: TopicHarness) -> None:
    since(decided)
    remake(decided, "outcomes")
    with pytest.raises(UsageError, match=f"topic {decided.topics.outcomes} was recreated"):
        since(decided)


@pytest.mark.kafka
def test_shortened_log_moves_nothing(decided: TopicHarness) -> None:
    since(decided)
    (generation,) = (decided.folder / "proved").glob("generation-*")
    carried = load_checkpoint(generation / "1")
    longer = msgspec.structs.replace(carried, read_until={**carried.read_until, "events": 10**6})
    write_checkpoint_file(generation / "1", longer)
    with pytest.raises(
        ContradictionError, match="has read it up to 1000000: records were deleted at its end"
    ):
        since(decided)
    assert generation.is_dir()
