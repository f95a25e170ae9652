"""Shards are compared with the events, and each difference is reported."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_readonly, open_shard
from cqrs_cli.state.shutdown_marker import MARKER_FILE
from cqrs_cli.state.store import WriteBatch
from tests.jobs.verify.verification import edit_record, open_shard_0, verify
from tests.support import ROOT
from tests.support.commands import command, mixed_commands
from tests.support.foreign_records import rewrite_topic
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


def accept_rewritten_events(harness: TopicHarness) -> None:
    """Make the shard of partition 0 treat the rewritten events as the events that it has folded."""
    reader = open_readonly(harness.shard_path())
    assert reader is not None
    with closing(reader):
        old_identity = msgspec.json.decode(reader.identity(), type=Identity)
    new_identity = harness.plan().identity(Partition(harness.topics.aggregate, 0), harness.aggregate)
    with closing(open_shard(harness.shard_path(), old_identity).store) as store:
        store.set_identity(encode_json(new_identity))
        start = store.positions()
        store.apply(WriteBatch(store.token(), start, start._replace(events=harness.stable_end("events"))))


def test_equal_shards_are_clean(decided_bank: TopicHarness) -> None:
    assert decided_bank.violations("state") == []


@pytest.mark.covers("state-is-events")
def test_altered_payload_is_found(decided_bank: TopicHarness) -> None:
    events = [json.loads(record.value or b"") for record in decided_bank.records("events")]
    offset, name = next((n, e["subject"]) for n, e in enumerate(events) if e["type"].endswith("Deposited"))
    rewrite_topic(decided_bank, "events", edit_record(offset, {"amount": 12345}))
    accept_rewritten_events(decided_bank)
    assert decided_bank.violations() == []
    (violation,) = map(str, verify(decided_bank, "state").violations)
    assert violation.startswith(f"{decided_bank.topics.events} partition 0 offset ")
    assert f"leaves {name!r} at version " in violation


def test_stale_shard_is_found(decided_bank: TopicHarness) -> None:
    name, saved = next(iter(decided_bank.shard_states().items()))
    with open_shard_0(decided_bank) as store:
        older = replace(saved, version=saved.version - 1)
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), {name: older}))
    (violation,) = decided_bank.violations("state")
    assert f"leaves {name!r} at version {saved.version} " in violation
    assert f"in the shard it is at version {saved.version - 1} " in violation


def test_states_by_other_code_are_counted(decided_bank: TopicHarness) -> None:
    """The first state is shown, and the other states are one violation."""
    entries = list(decided_bank.shard_states().items())[:4]
    with open_shard_0(decided_bank) as store:
        states = {name: replace(saved, state=b'{"other":1}') for name, saved in entries}
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), states))
    violations = decided_bank.violations("state")
    assert len(entries) == 4 and len(violations) == 2
    assert any(
        "leaves 3 more aggregates with another state of the same version" in violation
        for violation in violations
    )


def test_surplus_aggregate_is_found(decided_bank: TopicHarness) -> None:
    with open_shard_0(decided_bank) as store:
        states = {"zoe": StoredState(1, 0, 0, b"{}")}
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), states))
    (violation,) = decided_bank.violations("state")
    assert "leaves 'zoe' without events, in the shard it is at version 1 by command 0: {}" in violation


def test_shard_ahead_of_its_log(decided_bank: TopicHarness) -> None:
    with open_shard_0(decided_bank) as store:
        start = store.positions()
        store.apply(WriteBatch(store.token(), start, start._replace(events=start.events + 7)))
    (violation,) = decided_bank.violations("state")
    assert "is the end of the log, but the shard has folded up to" in violation


def test_untrusted_shard_is_skipped(decided_bank: TopicHarness) -> None:
    (decided_bank.shard_path() / MARKER_FILE).unlink()
    compared = verify(decided_bank, "state").comparisons
    assert compared[0].skip_reason.startswith("there is no usable shard in ")
    assert compared[1] == ShardComparison(len(decided_bank.shard_states(partition=1)))


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"revision": 2}, "revision was"),
        ({"schema": "another"}, "fields of its events or its state have changed"),
        ({"cluster_id": "another"}, "cluster_id was"),
    ],
)
def test_shard_of_another_identity_is_skipped(
    decided_bank: TopicHarness, changes: dict[str, Any], difference: str
) -> None:
    identity = decided_bank.plan().identity(
        Partition(decided_bank.topics.aggregate, 0), decided_bank.aggregate
    )
    shutil.rmtree(decided_bank.shard_path())
    open_shard(decided_bank.shard_path(), msgspec.structs.replace(identity, **changes)).store.close()
    skip_reason = verify(decided_bank, "state").comparisons[0].skip_reason
    assert f"the next run rebuilds the shard: {difference}" in skip_reason


def test_lagging_shard_is_partly_compared(decided_bank: TopicHarness) -> None:
    with open_shard_0(decided_bank) as store:
        positions = store.positions()
    decided_bank.send(*mixed_commands(100, seed=3))
    run_plan(decided_bank.plan(machine="another"))
    report = verify(decided_bank, "state")
    behind_until, end = report.comparisons[0].behind or (0, 0)
    last = max(record.offset for record in decided_bank.records("events"))
    assert ((behind_until, end), report.violations) == ((positions.events, last + 1), [])
    assert verify(decided_bank, "another").comparisons[0].behind is None


def test_shard_in_use_does_not_lag(decided_bank: TopicHarness) -> None:
    decided_bank.send(*mixed_commands(100, seed=3))
    run_plan(decided_bank.plan(machine="another"))
    identity = decided_bank.plan().identity(
        Partition(decided_bank.topics.aggregate, 0), decided_bank.aggregate
    )
    open_shard(decided_bank.shard_path(), identity).store.close_without_sync()
    assert decided_bank.shutdown_marker() == "working"
    assert verify(decided_bank, "state").comparisons[0].behind is None


@pytest.fixture
def failing_evolve(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """An aggregate whose `evolve` fails for the sixth event."""
    harness = TopicHarness(connection, prefix, tmp_path, "awkward", package="awkward", root=ROOT / "tests")
    harness.send(*(command("awkward.Behave", "a", f"b{n}") for n in range(8)))
    run_plan(harness.plan())
    rewrite_topic(harness, "events", edit_record(5, {"text": "bone"}))
    return harness


def test_events_beyond_empty_shard_are_folded(failing_evolve: TopicHarness) -> None:
    shutil.rmtree(failing_evolve.shard_path())
    identity = failing_evolve.plan().identity(
        Partition(failing_evolve.topics.aggregate, 0), failing_evolve.aggregate
    )
    open_shard(failing_evolve.shard_path(), identity).store.close()
    report = verify(failing_evolve, "state")
    (violation,) = map(str, report.violations)
    assert "offset 5 cannot be folded: evolve raised" in violation
    assert report.comparisons[0] == ShardComparison(
        behind=(0, failing_evolve.records("events")[-1].offset + 1)
    )


def test_events_without_shard_are_folded(failing_evolve: TopicHarness) -> None:
    (failing_evolve.shard_path() / MARKER_FILE).unlink()
    (violation,) = map(str, verify(failing_evolve, "state").violations)
    assert "offset 5 cannot be folded: evolve raised" in violation


def test_unknown_event_is_found(decided_bank: TopicHarness) -> None:
    rewrite_topic(decided_bank, "events", edit_record(5, type="bank_account.Burnt"))
    accept_rewritten_events(decided_bank)
    (violation,) = map(str, verify(decided_bank, "state").violations)
    assert "cannot be read: the code knows no event bank_account.Burnt" in violation
