"""Checkpoints in an object store: written while owners decide, pruned, and used for new shards. The store may fail."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.deciding.checkpoints.source import checkpoint_source
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from tests.deciding.checkpoints.checkpoint_runs import RESTORED_NOTE, checkpoint_plan, run_on_new_machine
from tests.support import AGGREGATES
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.objects.running import Bucket, ObjectServer
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.objects, pytest.mark.covers("checkpoint")]


@pytest.fixture
def checkpoint_setting(bucket: Bucket) -> dict[str, Any]:
    """The setting of a run."""
    return {"checkpoints": bucket.uri("shop/checkpoints")}


def open_checkpoints(harness: TopicHarness, checkpoint_setting: dict[str, Any]) -> Checkpoints:
    plan = checkpoint_plan(harness, **checkpoint_setting)
    return checkpoint_source(plan, plan.partitions()[0], harness.aggregate).checkpoints()


def newest_command_count(harness: TopicHarness, checkpoint_setting: dict[str, Any]) -> int:
    """Return the number of commands in the newest checkpoint."""
    manifests = open_checkpoints(harness, checkpoint_setting).newest()
    return 0 if manifests is None else manifests.positions.commands


def test_new_machine_starts_from_a_checkpoint(
    counters: TopicHarness, checkpoint_setting: dict[str, Any], bucket: Bucket
) -> None:
    """The newest two checkpoints are kept. A new state folder starts from the newest and decides on."""
    for first in range(0, 30, 10):
        counters.send(*increment_commands(10, first=first))
        run_plan(checkpoint_plan(counters, checkpoint_every=3600.0, **checkpoint_setting))
        assert newest_command_count(counters, checkpoint_setting) == first + 10
    assert len(open_checkpoints(counters, checkpoint_setting).manifests()) == 2
    assert len([file for file in bucket.folder.rglob("*") if file.is_file()]) == 4
    counters.send(*increment_commands(10, first=30))
    assert sum(RESTORED_NOTE in note for note in run_on_new_machine(counters, **checkpoint_setting)) == 1
    assert len(counters.outcomes()) == 40 and counters.violations("new") == []


@pytest.mark.slow
def test_owners_decide_without_the_store(
    counters: TopicHarness, checkpoint_setting: dict[str, Any], object_store: ObjectServer
) -> None:
    """Deciding continues, a note explains why no checkpoint is written, and the next checkpoint is written."""
    timing = Timing(checkpoint_retry=0.2)
    counters.send(*increment_commands(10))
    with running_owners(
        replace(
            checkpoint_plan(counters, checkpoint_every=0.1, **checkpoint_setting),
            end_offsets=None,
            timing=timing,
        )
    ) as owner:
        eventually(lambda: newest_command_count(counters, checkpoint_setting) >= 10)
        object_store.kill()
        try:
            counters.send(*increment_commands(10, first=10))
            eventually(lambda: counters.position_and_claim()[0] == 20)
        finally:
            object_store.start()
        counters.send(*increment_commands(10, first=20))
        eventually(lambda: newest_command_count(counters, checkpoint_setting) >= 30)
    assert owner.error() is None
    assert sum(RESTORED_NOTE in note for note in run_on_new_machine(counters, **checkpoint_setting)) == 1
    assert counters.violations("new") == []


@pytest.mark.parametrize("fault", ["no bucket", "wrong secret"])
def test_useless_store_costs_a_note(
    counters: TopicHarness,
    checkpoint_setting: dict[str, Any],
    bucket: Bucket,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that cannot be used causes only a note, because the shard can be made from the log."""
    if fault == "no bucket":
        bucket.folder.rmdir()
    else:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    counters.send(*increment_commands(10))
    start_note, write_note = run_on_new_machine(counters, **checkpoint_setting)
    reason = "the bucket does not exist; create it" if fault == "no bucket" else "check the credentials"
    assert "no checkpoint is used" in start_note and reason in start_note
    assert "no checkpoint of" in write_note and reason in write_note


def test_doctor_tries_the_store(
    counters: TopicHarness,
    checkpoint_setting: dict[str, Any],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cqrs.toml").write_text(f'checkpoint_location = "{checkpoint_setting["checkpoints"]}"\n')
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "counter.py").symlink_to(AGGREGATES / "counter.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CQRS_BOOTSTRAP_SERVER", counters.connection.bootstrap_server)
    monkeypatch.setenv("CQRS_TOPIC_PREFIX", counters.topics.prefix)

    def doctor_checks() -> list[tuple[str, str]]:
        assert main(["doctor", "-q", "-o", "json"]) == 0
        checks = json.loads(capfd.readouterr().out)["checks"]
        return [(check["status"], check["detail"]) for check in checks if check["name"] == "checkpoints"]

    counters.send(*increment_commands(10))
    run_plan(checkpoint_plan(counters, checkpoint_every=3600.0, **checkpoint_setting))
    store_check, age_check = doctor_checks()
    assert store_check == ("ok", f"s3://{bucket.folder.name}/shop/checkpoints responds and is writable")
    assert age_check[0] == "ok" and "partition 0" in age_check[1]
    shutil.rmtree(bucket.folder)
    ((status, detail),) = doctor_checks()
    assert status == "warn" and "the bucket does not exist" in detail
