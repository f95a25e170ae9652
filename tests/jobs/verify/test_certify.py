"""Certificates of topics on a real broker, and as a command."""

import json
from pathlib import Path

import pytest

from tests.jobs.verify.verification import certify, run_cqrs
from tests.support.foreign_records import append_records, changed_record, rewrite_topic
from tests.support.harness import TopicHarness
from tests.support.topic_loss import delete_records_before


@pytest.mark.kafka
@pytest.mark.covers("certified")
def test_only_changes_are_found(decided_bank: TopicHarness) -> None:
    certificate = certify(decided_bank)
    assert (certificate.checked_count, certificate.changes) == (0, [])
    append_records(decided_bank, "outcomes", decided_bank.records("outcomes")[7])
    second = certify(decided_bank, certificate.certificate)
    assert (second.checked_count, second.changes, second.deleted_counts) == (certificate.records, [], {})
    delete_records_before(decided_bank, "commands", 60)
    after_deletion = certify(decided_bank, certificate.certificate)
    assert after_deletion.changes == []
    (deleted_count,) = after_deletion.deleted_counts.values()
    assert deleted_count + after_deletion.checked_count == certificate.records
    delete_records_before(decided_bank, "events", 1)
    (deletion,) = certify(decided_bank, certificate.certificate).changes
    assert str(deletion) == f"{decided_bank.topics.events} partition 0: begins at 1: events were deleted"
    rewrite_topic(
        decided_bank, "outcomes", lambda log: log.__setitem__(0, changed_record(log[0], source="/other"))
    )
    changes = certify(decided_bank, certificate.certificate).changes
    assert "was recreated: the certificate covers topic id" in next(
        change.what for change in changes if change.kind == "outcomes"
    )
    assert "offsets 0 to 49 were altered" in [change.what for change in changes if change.kind == "outcomes"]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_command_writes_and_compares_certificates(decided_bank: TopicHarness, tmp_path: Path) -> None:
    file = tmp_path / "project" / "first.json"
    result = run_cqrs(decided_bank, "certificate", "bank_account", "--out", "first.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "certificate written to first.json"
    document = json.loads(file.read_text())
    document["topics"][decided_bank.topics.events]["partitions"][0]["stretches"][0]["sha256"] = "0" * 64
    file.with_name("other.json").write_text(json.dumps(document))
    result = run_cqrs(
        decided_bank, "certificate", "bank_account", "--check", "other.json", "--out", "second.json"
    )
    assert result.returncode == 5
    assert result.stdout.splitlines()[0].startswith(
        f"{decided_bank.topics.events} partition 0: offsets 0 to "
    )
    assert result.stderr.startswith(
        "error: 1 change in the topics of bank_account since other.json; look at the first"
    )
    assert (
        json.loads(file.with_name("second.json").read_text())["topics"]
        == json.loads(file.read_text())["topics"]
    )
