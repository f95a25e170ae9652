"""Certificates of topics on a real broker, and as a command."""

import json
from pathlib import Path

import pytest

from tests.jobs.verify.verification import call, certified
from tests.support.foreign_records import append, edited, rewrite
from tests.support.harness import TopicHarness
from tests.support.topic_loss import shorten


@pytest.mark.kafka
@pytest.mark.covers("certified")
def test_only_changes_are_found(decided: TopicHarness) -> None:
    certificate = certified(decided)
    assert (certificate.checked, certificate.changes) == (0, [])
    append(decided, "outcomes", decided.records("outcomes")[7])
    since = certified(decided, certificate.certificate)
    assert (since.checked, since.changes, since.deleted) == (certificate.records, [], {})
    shorten(decided, "commands", 60)
    shorter = certified(decided, certificate.certificate)
    assert shorter.changes == []
    (gone,) = shorter.deleted.values()
    assert gone + shorter.checked == certificate.records
    shorten(decided, "events", 1)
    (lost,) = certified(decided, certificate.certificate).changes
    assert str(lost) == f"{decided.topics.events} partition 0: begins at 1: events were deleted"
    rewrite(decided, "outcomes", lambda log: log.__setitem__(0, edited(log[0], source="/other")))
    changes = certified(decided, certificate.certificate).changes
    assert "was recreated: the certificate covers topic id" in next(
        change.what for change in changes if change.kind == "outcomes"
    )
    assert "offsets 0 to 49 were altered" in [change.what for change in changes if change.kind == "outcomes"]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_command_keeps_and_compares(decided: TopicHarness, tmp_path: Path) -> None:
    file = tmp_path / "project" / "then.json"
    result = call(decided, "certificate", "bank_account", "--out", "then.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "certificate written to then.json"
    document = json.loads(file.read_text())
    document["topics"][decided.topics.events]["partitions"][0]["stretches"][0]["sha256"] = "0" * 64
    file.with_name("other.json").write_text(json.dumps(document))
    result = call(decided, "certificate", "bank_account", "--check", "other.json", "--out", "now.json")
    assert result.returncode == 5
    assert result.stdout.splitlines()[0].startswith(f"{decided.topics.events} partition 0: offsets 0 to ")
    assert result.stderr.startswith(
        "error: 1 change in the topics of bank_account since other.json; look at the first"
    )
    assert (
        json.loads(file.with_name("now.json").read_text())["topics"] == json.loads(file.read_text())["topics"]
    )
