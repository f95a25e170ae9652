"""A shard made from a checkpoint and the tail of the log equals the shard made from the whole log."""

import random
import signal
import socket
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.deciding.checkpoints.child_process import WriteRequest, start_child
from cqrs_cli.deciding.checkpoints.fetch import fetch_checkpoint
from cqrs_cli.deciding.checkpoints.write import write_checkpoint
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.ownership.timing import Timing
from tests.deciding.checkpoints.checkpoint_runs import (
    RESTORED_NOTE,
    checkpoint_folder,
    checkpoint_plan,
    checkpoint_sources,
    checkpoints_of,
    data_files,
    run_on_new_machine,
    run_once,
    write_checkpoints,
)
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_checkpoint_and_tail_equal_the_log(bank: TopicHarness, seed: int) -> None:
    """Checkpoints are taken at random positions. The live shards, the log and each checkpoint give equal digests."""
    randomness, commands = random.Random(seed), list(mixed_commands(600, seed=seed))
    positions = sorted(randomness.sample(range(1, 600), 3))
    for start, end in zip([0, *positions], [*positions, 600], strict=True):
        bank.send(*commands[start:end])
        run_plan(bank.plan())
        if start:
            write_checkpoints(bank)
    bank.send(*randomness.sample(commands, 100))  # most are repetitions
    assert sum(RESTORED_NOTE in note for note in run_on_new_machine(bank)) == 2
    run_plan(bank.plan())
    run_plan(bank.plan(machine="log"))
    assert bank.digest("new") == bank.digest("state") == bank.digest("log")
    assert bank.violations("new") == []


def write_two_checkpoints(counters: TopicHarness) -> None:
    """Write two checkpoints, and decide further commands after each."""
    for first in (0, 10):
        counters.send(*increment_commands(10, first=first))
        run_plan(counters.plan())
        assert len(write_checkpoints(counters)) == 1
    counters.send(*increment_commands(10, first=20))


def fetch_best_checkpoint(counters: TopicHarness, into: Path) -> tuple[int | None, list[str]]:
    """Return the number of commands in the checkpoint that is used, if any, and the notes about other checkpoints."""
    notes: list[str] = []
    (source,) = checkpoint_sources(counters)
    with observing(message_listener(notes.append)):
        manifest = fetch_checkpoint(source, (), into)
    return None if manifest is None else manifest.positions.commands, notes


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("damaged_content", [b"", b"torn", None])
def test_damaged_checkpoint_is_replaced_by_older(
    counters: TopicHarness, tmp_path: Path, damaged_content: bytes | None
) -> None:
    """In place of a damaged checkpoint, the next older checkpoint is used. Without an intact checkpoint, the log is
    used.
    """
    write_two_checkpoints(counters)
    older, newer = data_files(counters)
    assert fetch_best_checkpoint(counters, tmp_path) == (20, [])
    for file, remaining_commands in ((newer, 10), (older, None)):
        if damaged_content is None:
            file.unlink()
        else:
            file.write_bytes(damaged_content)
        commands, notes = fetch_best_checkpoint(counters, tmp_path)
        assert (commands, ["is not used" in note for note in notes]) == (
            remaining_commands,
            [True] * (1 if remaining_commands else 2),
        )


@pytest.mark.covers("checkpoint")
def test_contradicting_checkpoints_are_not_used(counters: TopicHarness, tmp_path: Path) -> None:
    """A checkpoint is not used if the log has other records now, or ends earlier, as after a restore."""
    write_two_checkpoints(counters)
    newest, _ = checkpoints_of(counters).manifests()
    positions = newest.positions
    assert positions.last_event is not None and positions.last_outcome is not None
    event, outcome = (
        replace(positions.last_event, digest="another"),
        replace(positions.last_outcome, digest="another"),
    )
    positions_ahead = newest.positions._replace(events=counters.stable_end("events") + 9)
    for manifest, reason in (
        (
            replace(newest, positions=positions._replace(last_event=event)),
            "counter.events partition 0 has another record",
        ),
        (
            replace(newest, positions=positions._replace(last_outcome=outcome)),
            "outcomes partition 0 has another record",
        ),
        (replace(newest, positions=positions_ahead), "ahead of the log"),
        (replace(newest, loss='{"at":1}'), "before a loss"),
    ):
        for path in checkpoint_folder(counters).rglob("*.json"):
            path.unlink()
        name, content = manifest.encoded()
        checkpoints_of(counters).folder.write(name, iter([content]))
        commands, (note,) = fetch_best_checkpoint(counters, tmp_path)
        assert commands is None and reason in note
    assert not any(RESTORED_NOTE in note for note in run_on_new_machine(counters))


@pytest.mark.covers("checkpoint")
def test_recreated_topic_has_no_checkpoint(counters: TopicHarness) -> None:
    write_two_checkpoints(counters)
    manifest = checkpoints_of(counters).newest()
    assert manifest is not None
    identity = replace(manifest.identity, topics={**manifest.identity.topics, "events": "made again"})
    (source,) = (changed(checkpoint, identity=identity) for checkpoint in checkpoint_sources(counters))
    assert source.mismatch_reason(manifest, source.ends(), "").startswith("topics was")
    with pytest.raises(ConfigurationError, match="belongs to another log or other code"):
        write_checkpoint(source)


@pytest.mark.slow
@pytest.mark.covers("checkpoint")
def test_unreachable_store_costs_a_note(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    unreachable_store = "s3://bucket/x?scheme=http&region=here&endpoint_override=127.0.0.1:1"
    notes = run_once(counters, "new", checkpoints=unreachable_store)
    counters.check("new")
    assert sum("no checkpoint is used" in note and "cannot be used" in note for note in notes) == 1


@pytest.mark.covers("checkpoint")
def test_silent_store_stops_no_owner(counters: TopicHarness, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that accepts connections but never answers stops no owner, neither at its start nor at a write."""
    short_timeouts = Timing(checkpoint_answer_timeout=0.5, checkpoint_deadline=0.5)
    counters.send(*increment_commands(10))
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent_store = (
            f"s3://bucket/x?scheme=http&region=here&endpoint_override=127.0.0.1:{server.getsockname()[1]}"
        )
        with running_owners(
            changed(
                checkpoint_plan(counters, checkpoints=silent_store), end_offsets=None, timing=short_timeouts
            )
        ) as owner:
            eventually(lambda: counters.position_and_claim()[0] == 10)
            eventually(lambda: "has taken more than" in capsys.readouterr().err)
    counters.check()
    start_note, write_note = owner.notes()
    assert "no checkpoint is used" in start_note and "has not answered" in start_note
    assert "no checkpoint of" in write_note and "has taken more than" in write_note


def test_no_new_commands_write_no_checkpoint(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    run_plan(counters.plan())
    assert (
        len({manifest.written for manifest in (*write_checkpoints(counters), *write_checkpoints(counters))})
        == 1
    )
    counters.send(*increment_commands(1, first=10))
    run_plan(counters.plan())
    (source,) = checkpoint_sources(counters)
    newest = write_checkpoint(source, interval=3600)
    assert newest is not None and newest.positions.commands == 10
    assert len(data_files(counters)) == 1


@pytest.mark.slow
@pytest.mark.covers("checkpoint")
def test_owners_write_while_they_decide(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    plan = changed(checkpoint_plan(counters, checkpoint_every=0.1), end_offsets=None)
    with running_owners(plan):
        eventually(lambda: checkpoints_of(counters).newest() is not None)
        counters.send(*increment_commands(10, first=10))
        eventually(
            lambda: (
                (newest := checkpoints_of(counters).newest()) is not None and newest.positions.commands >= 20
            )
        )
    assert sum(RESTORED_NOTE in note for note in run_on_new_machine(counters)) == 1


@pytest.mark.slow
@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("point", ["checkpoint.copied", "checkpoint.uploaded", "checkpoint.written"])
def test_killed_writers_damage_no_checkpoint(
    counters: TopicHarness, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_two_checkpoints(counters)
    run_plan(counters.plan())
    monkeypatch.setenv(failpoints.VARIABLE, f"{point}:1:kill")
    child = start_child(WriteRequest(checkpoint_sources(counters), 0.0))
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    monkeypatch.delenv(failpoints.VARIABLE)
    assert sum(RESTORED_NOTE in note for note in run_on_new_machine(counters)) == 1
    for first in (30, 31):  # orphaned data are deleted once both kept checkpoints are newer
        counters.send(*increment_commands(1, first=first))
        run_plan(counters.plan())
        write_checkpoints(counters)
    assert len(data_files(counters)) == 2
    assert [path.name for path in counters.shard_path().parent.iterdir()] == ["0"]


@pytest.mark.slow
@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("point", ["checkpoint.installed", "recover.owned", "recover.events"])
def test_owner_killed_at_its_start(counters: TopicHarness, point: str) -> None:
    write_two_checkpoints(counters)
    assert OwnerProcess(checkpoint_plan(counters, "new"), f"{point}:1:kill").was_killed()
    run_once(counters, "new")
    counters.check("new")


@pytest.mark.slow
def test_killed_download_falls_back_to_log(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    write_two_checkpoints(counters)
    monkeypatch.setenv(failpoints.VARIABLE, "checkpoint.fetched:1:kill")
    assert not any(RESTORED_NOTE in note for note in run_on_new_machine(counters))
    assert [path.name for path in counters.shard_path("new").parent.iterdir()] == ["0"]
