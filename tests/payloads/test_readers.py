"""Every reader gets events and commands with their data, or names the record whose payload is missing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.core.messages.payload_reference import PayloadReference, find_reference
from cqrs_cli.errors import ContradictionError, PayloadUnavailableError
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.kafka.admin.topics import Admin, find_topics
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from cqrs_cli.kafka.topics.checks import aggregate_topics
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.scans.replay.task import ReplayPlan, replay_part
from cqrs_cli.scans.whatif.plan import plan_whatif
from cqrs_cli.scans.whatif.task import WhatifResult, simulate
from cqrs_cli.spark.offset_ranges import OffsetRange
from cqrs_cli.spark.options import SourceKind
from cqrs_cli.spark.plan import SourcePlan
from cqrs_cli.spark.task import read_range
from tests.payloads.bank import LARGE_NAME, Bank
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def bank_with_account(bank: Bank) -> Bank:
    """A bank with a large command and a large event."""
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    bank.send("ada", "Deposit", "amount:=5")
    assert bank.decide() == ["accepted", "accepted"]
    return bank


def reference(bank: Bank) -> PayloadReference:
    """Return the reference that command and event share, because their data are equal."""
    event_reference = find_reference(bank.events()[0].value)
    assert event_reference is not None
    return event_reference


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
def test_rows_have_their_data(bank_with_account: Bank) -> None:
    data = [{"owner": LARGE_NAME}, {"amount": 5}]
    assert rows(bank_with_account, "events") == rows(bank_with_account, "commands") == data
    storeless = replace(bank_with_account.harness.connection, payloads=None)
    with pytest.raises(ContradictionError, match="set payload_store"):
        rows(bank_with_account, "events", storeless)
    assert rows(bank_with_account, "commands", storeless) == [None, {"amount": 5}]
    bank_with_account.store.delete(reference(bank_with_account), bank_with_account.folder)
    with pytest.raises(PayloadUnavailableError, match=r"events:0@0 refers to payload"):
        rows(bank_with_account, "events")


@pytest.mark.covers("payloads")
def test_replay_folds_payloads(bank_with_account: Bank) -> None:
    harness = bank_with_account.harness
    bounds = {0: (0, harness.stable_end("events"))}
    plan = ReplayPlan(
        harness.connection,
        harness.topics,
        "aggregates",
        harness.settings.root,
        bounds,
        KeySpace.fixed(1, "murmur2"),
    )
    result = replay_part(plan, 0)
    assert result.error is None and result.total.aggregates == 1
    bank_with_account.store.alter(reference(bank_with_account), bank_with_account.folder)
    assert isinstance(replay_part(plan, 0).error, PayloadUnavailableError)
    storeless = replace(plan, connection=replace(plan.connection, payloads=None))
    assert isinstance(replay_part(storeless, 0).error, ContradictionError)


@pytest.mark.covers("payloads")
def test_export_writes_payloads(bank_with_account: Bank) -> None:
    harness = bank_with_account.harness
    plan = plan_export(harness.connection, harness.topics, "aggregates", harness.settings.root)
    (lines,) = exported_rows(plan, 0, "jsonl")
    first = json.loads(lines.column(0)[0].as_py())
    assert first["data"] == {"owner": LARGE_NAME} and "datasha256" not in first
    (columns,) = exported_rows(plan, 0, "parquet")
    assert [row["Opened"] for row in columns.to_pylist()] == [{"owner": LARGE_NAME}, None]
    bank_with_account.store.delete(reference(bank_with_account), bank_with_account.folder)
    with pytest.raises(PayloadUnavailableError, match=r"events:0@0 refers to payload"):
        list(exported_rows(plan, 0, "jsonl"))


@pytest.mark.covers("payloads")
def test_commands_are_decided_again_with_payloads(bank_with_account: Bank) -> None:
    harness, event_reference = bank_with_account.harness, reference(bank_with_account)
    bank_with_account.send("bob", "Open", f"owner=Bob{LARGE_NAME}")
    lost_reference = find_reference(harness.records("commands")[-1].value)
    assert lost_reference is not None
    bank_with_account.store.delete(lost_reference, bank_with_account.folder)
    assert bank_with_account.decide()[-1] == "PAYLOAD_UNAVAILABLE"
    plan = plan_whatif(harness.connection, harness.topics, harness.settings, "aggregates.bank_account")
    assert list(simulate(plan, WhatifResult(0))) == []
    bank_with_account.store.put(b'{"owner":"Bob%s"}' % LARGE_NAME.encode(), bank_with_account.folder)
    assert list(simulate(plan, WhatifResult(0))) == []  # history did not have this payload
    bank_with_account.store.delete(event_reference, bank_with_account.folder)
    with pytest.raises(PayloadUnavailableError):
        list(simulate(plan, WhatifResult(0)))


def test_dry_run_decides_on_payloads(bank_with_account: Bank) -> None:
    """A dry run decides as an owner would, with the payload's fingerprint, and stores nothing."""
    harness, stored_files = bank_with_account.harness, bank_with_account.store.files()
    command = bank_with_account.compose("bob", "Open", f"owner=Bob{LARGE_NAME}")
    settings = DecisionSettings("murmur2", 1000, 20)
    simulation = Simulation(harness.connection, harness.topics, harness.aggregate, settings, [command])
    result = simulation.decide(command)
    assert result.envelope.data.status == "accepted"
    assert json.loads(result.events[0])["data"] == {"owner": f"Bob{LARGE_NAME}"}
    assert bank_with_account.store.files() == stored_files


@pytest.mark.covers("payloads")
def test_tail_of_events_has_their_data(bank_with_account: Bank) -> None:
    """Projections and process managers get events with their data, and skip no event without its payload."""
    harness, event_reference = bank_with_account.harness, reference(bank_with_account)
    source = EventPartition("bank_account", harness.topics.events, 0)
    tail = PartitionTail(harness.connection, source, 0, harness.connection.payload_codec())
    payload = bank_with_account.store.file(event_reference, bank_with_account.folder).read_bytes()
    bank_with_account.store.alter(event_reference, bank_with_account.folder)

    def is_refused() -> bool:
        try:
            records, position = tail.poll(10)
        except PayloadUnavailableError:
            return True
        assert (records, position) == ([], 0)
        return False

    eventually(is_refused)
    assert is_refused()
    bank_with_account.store.file(event_reference, bank_with_account.folder).write_bytes(payload)
    records, _ = tail.poll(10)
    tail.close()
    data = [json.loads(record.value or b"")["data"] for record in records]
    assert data[0] == {"owner": LARGE_NAME}
