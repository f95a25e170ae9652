"""Every reader gets events and commands with their data, or names the record whose payload is missing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.core.messages.payload_reference import PayloadReference, find_reference
from cqrs_cli.errors import ContradictionError, PayloadUnavailableError
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.whatif import plan_whatif
from cqrs_cli.kafka.admin.topics import Admin, find_topics
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from cqrs_cli.kafka.topics.checks import aggregate_topics
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.scans.replay.task import ReplayPlan, total_part
from cqrs_cli.scans.whatif.task import WhatifResult, simulate
from cqrs_cli.spark.offset_ranges import OffsetRange
from cqrs_cli.spark.options import SourceKind
from cqrs_cli.spark.plan import SourcePlan
from cqrs_cli.spark.task import read_range
from tests.payloads.bank import LARGE_NAME, Bank
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def opened(bank: Bank) -> Bank:
    """A bank with a large command and a large event."""
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    bank.send("ada", "Deposit", "amount:=5")
    assert bank.decide() == ["accepted", "accepted"]
    return bank


def reference(bank: Bank) -> PayloadReference:
    """Return the reference that command and event share, because their data are equal."""
    found = find_reference(bank.events()[0].value)
    assert found is not None
    return found


def rows(bank: Bank, kind: SourceKind, connection: Any = None) -> list[Any]:
    """Return the data of a topic's records, as a task of a Spark read gets them."""
    harness = bank.harness
    connection = connection or harness.connection
    with Admin(connection) as admin:
        described = aggregate_topics(harness.topics, admin.cluster_id(), find_topics(admin, harness.topics))
    topic = harness.topics.name(kind)
    plan = SourcePlan(connection, topic, kind, "bank_account", None, "aggregates")
    part = OffsetRange(0, 0, harness.stable_end(kind))
    return [
        None if row["data"] is None else json.loads(row["data"])
        for batch in read_range(plan, described.ids[kind], part)
        for row in batch.to_pylist()
    ]


@pytest.mark.covers("payloads")
def test_rows_have_their_data(opened: Bank) -> None:
    data = [{"owner": LARGE_NAME}, {"amount": 5}]
    assert rows(opened, "events") == rows(opened, "commands") == data
    storeless = replace(opened.harness.connection, payloads=None)
    with pytest.raises(ContradictionError, match="set payload_store"):
        rows(opened, "events", storeless)
    assert rows(opened, "commands", storeless) == [None, {"amount": 5}]
    opened.store.delete(reference(opened), opened.folder)
    with pytest.raises(PayloadUnavailableError, match=r"events:0@0 refers to payload"):
        rows(opened, "events")


@pytest.mark.covers("payloads")
def test_replay_folds_payloads(opened: Bank) -> None:
    harness = opened.harness
    bounds = {0: (0, harness.stable_end("events"))}
    plan = ReplayPlan(harness.connection, harness.topics, "aggregates", harness.settings.root, bounds)
    whole = total_part(plan, 0)
    assert whole.error is None and whole.total.aggregates == 1
    opened.store.alter(reference(opened), opened.folder)
    assert isinstance(total_part(plan, 0).error, PayloadUnavailableError)
    storeless = replace(plan, connection=replace(plan.connection, payloads=None))
    assert isinstance(total_part(storeless, 0).error, ContradictionError)


@pytest.mark.covers("payloads")
def test_export_writes_payloads(opened: Bank) -> None:
    harness = opened.harness
    plan = plan_export(harness.connection, harness.topics, "aggregates", harness.settings.root)
    (lines,) = exported_rows(plan, 0, "jsonl")
    first = json.loads(lines.column(0)[0].as_py())
    assert first["data"] == {"owner": LARGE_NAME} and "datasha256" not in first
    (columns,) = exported_rows(plan, 0, "parquet")
    assert [row["Opened"] for row in columns.to_pylist()] == [{"owner": LARGE_NAME}, None]
    opened.store.delete(reference(opened), opened.folder)
    with pytest.raises(PayloadUnavailableError, match=r"events:0@0 refers to payload"):
        list(exported_rows(plan, 0, "jsonl"))


@pytest.mark.covers("payloads")
def test_commands_are_decided_again_with_payloads(opened: Bank) -> None:
    harness, found = opened.harness, reference(opened)
    opened.send("bob", "Open", f"owner=Bob{LARGE_NAME}")
    lost = find_reference(harness.records("commands")[-1].value)
    assert lost is not None
    opened.store.delete(lost, opened.folder)
    assert opened.decide()[-1] == "PAYLOAD_UNAVAILABLE"
    plan = plan_whatif(harness.connection, harness.topics, harness.settings, "aggregates.bank_account")
    assert list(simulate(plan, WhatifResult(0))) == []
    opened.store.put(b'{"owner":"Bob%s"}' % LARGE_NAME.encode(), opened.folder)
    assert list(simulate(plan, WhatifResult(0))) == []  # history did not have this payload
    opened.store.delete(found, opened.folder)
    with pytest.raises(PayloadUnavailableError):
        list(simulate(plan, WhatifResult(0)))


def test_dry_run_decides_on_payloads(opened: Bank) -> None:
    """A dry run decides as an owner would, with the payload's fingerprint, and stores nothing."""
    harness, stored = opened.harness, opened.store.files()
    command = opened.compose("bob", "Open", f"owner=Bob{LARGE_NAME}")
    deciding = DecisionSettings("murmur2", 1000, 20)
    rehearsal = Simulation(harness.connection, harness.topics, harness.aggregate, deciding, [command])
    rehearsed = rehearsal.decide(command)
    assert rehearsed.envelope.data.status == "accepted"
    assert json.loads(rehearsed.events[0])["data"] == {"owner": f"Bob{LARGE_NAME}"}
    assert opened.store.files() == stored


@pytest.mark.covers("payloads")
def test_tail_of_events_has_their_data(opened: Bank) -> None:
    """Projections and process managers get events with their data, and skip no event without its payload."""
    harness, found = opened.harness, reference(opened)
    source = EventPartition("bank_account", harness.topics.events, 0)
    tail = PartitionTail(harness.connection, source, 0, lambda text: None, harness.connection.payload_codec())
    kept = opened.store.file(found, opened.folder).read_bytes()
    opened.store.alter(found, opened.folder)

    def refused() -> bool:
        try:
            records, reached = tail.poll(10)
        except PayloadUnavailableError:
            return True
        assert (records, reached) == ([], 0)
        return False

    eventually(refused)
    assert refused()
    opened.store.file(found, opened.folder).write_bytes(kept)
    records, _ = tail.poll(10)
    tail.close()
    data = [json.loads(record.value or b"")["data"] for record in records]
    assert data[0] == {"owner": LARGE_NAME}
