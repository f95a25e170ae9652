"""The doctor's checks of checkpoints: their store, and the newest checkpoint of each partition."""

import json
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from cqrs_cli.cli.main import main
from cqrs_cli.doctor.checkpoints import (
    STORE_TIMEOUT,
    check_checkpoint_store,
    check_latest_checkpoints,
)
from cqrs_cli.state.checkpoint.manifest import MANIFEST_SUFFIX, read_manifest
from cqrs_cli.storage.folder import open_folder
from tests.deciding.checkpoints.checkpoint_runs import checkpoint_folder, write_checkpoints
from tests.state.shards import IDENTITY, MANIFEST, POSITIONS
from tests.support import ROOT
from tests.support.commands import increment_commands
from tests.support.disks import limit_file_size
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

Results = list[tuple[str, str]]


def check_store(uri: str, timeout: float = STORE_TIMEOUT) -> Results:
    return [(check.status, check.detail) for check in check_checkpoint_store(uri, timeout)]


def test_store_is_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    assert check_store(str(folder)) == [("warn", f"{folder} does not exist yet")]
    folder.mkdir()
    assert check_store(str(folder)) == [("ok", f"{folder} responds and is writable")]
    assert list(folder.iterdir()) == []

    with limit_file_size(0):
        (check,) = check_checkpoint_store(str(folder))
    assert check.status == "warn" and f"{folder} cannot be used: " in check.detail
    assert str(check.hint).endswith("; until then no checkpoint is written or used")
    assert list(folder.iterdir()) == []


def test_unusable_stores_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for uri, reason in (
        (f"{tmp_path}/file/store", "is not a folder that can be written"),
        ("unknown-scheme://store", "is not a folder"),
        ("s3://b/x?scheme=http&region=here&endpoint_override=127.0.0.1:1", "cannot be used"),
    ):
        ((status, detail),) = check_store(uri)
        assert status == "warn" and reason in detail and uri.partition("?")[0] in detail


def test_unresponsive_store_times_out() -> None:
    """The store accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        results = check_store(f"s3://b/x?scheme=http&region=here&endpoint_override={address}", 0.1)
    assert results == [("warn", "s3://b/x did not respond for 0 s")]


def check_latest(folder: Path, positions: Mapping[int, int], has_news: bool = True) -> Results:
    """Check three partitions."""
    identities = [replace(IDENTITY, partition=number) for number in range(3)]
    every = timedelta(hours=1)
    checks = check_latest_checkpoints(
        "a", str(folder), "x.a", every, identities, positions, lambda *_: has_news
    )
    return [(check.status, check.detail) for check in checks]


def write_manifest(folder: Path, number: int, hours: float, revision: int = 1) -> Path:
    """Write a manifest of 40 commands with this age."""
    identity = replace(IDENTITY, partition=number, revision=revision)
    manifest = replace(MANIFEST, written=int((time.time() - hours * 3600) * 1000), identity=identity)
    name, content = manifest.encoded()
    open_folder(str(folder), folder).subfolder("c1", "x.a", str(number)).write(name, iter([content]))
    return folder / "c1" / "x.a" / str(number) / name


def test_ages_and_lags_are_reported(tmp_path: Path) -> None:
    assert check_latest(tmp_path, {}) == [("ok", "a: no checkpoint yet, because no command was decided")]
    write_manifest(tmp_path, 0, 1.5)
    write_manifest(tmp_path, 1, 50)
    detail = "a: partition 0 (90 min old, 1,460 offsets behind), partition 1 (2 days old, 0 offsets behind)"
    assert check_latest(tmp_path, {0: 1500, 1: POSITIONS.commands}) == [("ok", detail)]


def test_unusable_checkpoints_are_a_warning(tmp_path: Path) -> None:
    write_manifest(tmp_path, 0, 3)
    write_manifest(tmp_path, 1, 0.0001, revision=2)  # older than the next manifest, in milliseconds
    assert check_latest(tmp_path, {0: 41, 1: 40, 2: 7}) == [
        (
            "warn",
            "a: partition 2 has no checkpoint, partition 0 (3 h old, 1 offset behind), "
            "partition 1 (0 s old, 0 offsets behind, for other topics, code or dedup window)",
        )
    ]
    write_manifest(tmp_path, 1, 0.0)
    detail = "a: partition 0 (3 h old, 1 offset behind), partition 1 (0 s old, 0 offsets behind)"
    assert check_latest(tmp_path, {0: 41, 1: 40}, has_news=False) == [("ok", detail)]


def test_damaged_manifest_is_a_warning(tmp_path: Path) -> None:
    write_manifest(tmp_path, 0, 0).write_bytes(b"torn")
    write_manifest(tmp_path, 0, 1)
    (damaged_result, other_result) = check_latest(tmp_path, {0: 40})
    assert damaged_result[0] == "warn" and damaged_result[1].endswith(": its manifest is damaged")
    assert other_result == ("ok", "a: partition 0 (60 min old, 0 offsets behind)")


@pytest.mark.kafka
def test_doctor_checks_checkpoints(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = counters.folder / "project"
    root.mkdir()
    (root / "cqrs.toml").write_text(
        f'checkpoint_location = "{checkpoint_folder(counters)}"\ncheckpoint_every = "1s"\n'
    )
    (root / "aggregates").mkdir()
    (root / "aggregates" / "counter.py").write_text((ROOT / "aggregates" / "counter.py").read_text())
    monkeypatch.chdir(root)
    monkeypatch.setenv("CQRS_BOOTSTRAP_SERVER", counters.connection.bootstrap_server)
    monkeypatch.setenv("CQRS_TOPIC_PREFIX", counters.topics.prefix)

    def doctor_results(*arguments: str) -> list[tuple[str, str]]:
        assert main(["doctor", *arguments, "-q", "-o", "json"]) == 0
        checks = json.loads(capfd.readouterr().out)["checks"]
        return [(check["status"], check["detail"]) for check in checks if check["name"] == "checkpoints"]

    assert [status for status, _ in doctor_results()] == ["warn"]  # the folder does not exist yet
    counters.send(*increment_commands(10))
    run_plan(counters.plan())
    write_checkpoints(counters)
    for manifest_file in checkpoint_folder(counters).rglob(f"*{MANIFEST_SUFFIX}"):
        manifest = read_manifest(manifest_file.name, manifest_file.read_bytes())
        name, content = replace(manifest, written=manifest.written - 7_200_000).encoded()
        manifest_file.with_name(name).write_bytes(content)
        manifest_file.unlink()
    (store_result, age_result) = doctor_results()
    assert (store_result[0], age_result[0]) == ("ok", "ok")
    assert "partition 0 (2 h old, " in age_result[1]
    counters.send(*increment_commands(10, first=10))
    run_plan(counters.plan())
    assert doctor_results()[1][0] == "warn"
    assert doctor_results("--for", "send") == []
