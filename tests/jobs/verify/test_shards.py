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
from tests.jobs.verify.verification import change, shard, verified
from tests.support import ROOT
from tests.support.commands import command, mixture
from tests.support.foreign_records import rewrite
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


def adopt(harness: TopicHarness) -> None:
    """Make the shard of partition 0 treat the rewritten events as the events that it has folded."""
    opened = open_readonly(harness.shard_path())
    assert opened is not None
    with closing(opened):
        before = msgspec.json.decode(opened.identity(), type=Identity)
    now = harness.plan().identity(Partition(harness.topics.aggregate, 0), harness.aggregate)
    with closing(open_shard(harness.shard_path(), before).store) as store:
        store.set_identity(encode_json(now))
        start = store.positions()
        store.apply(WriteBatch(store.token(), start, start._replace(events=harness.end("events"))))


def test_equal_shards_are_clean(decided: TopicHarness) -> None:
    assert decided.violations("state") == []


@pytest.mark.covers("state-is-events")
def test_altered_payload_is_found(decided: TopicHarness) -> None:
    events = [json.loads(record.value or b"") for record in decided.records("events")]
    offset, name = next((n, e["subject"]) for n, e in enumerate(events) if e["type"].endswith("Deposited"))
    rewrite(decided, "events", change(offset, {"amount": 12345}))
    adopt(decided)
    assert decided.violations() == []
    (violation,) = map(str, verified(decided, "state").violations)
    assert violation.startswith(f"{decided.topics.events} partition 0 offset ")
    assert f"leaves {name!r} at version " in violation


def test_stale_shard_is_found(decided: TopicHarness) -> None:
    name, saved = next(iter(decided.shard().items()))
    with shard(decided) as store:
        older = replace(saved, version=saved.version - 1)
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), {name: older}))
    (violation,) = decided.violations("state")
    assert f"leaves {name!r} at version {saved.version} " in violation
    assert f"in the shard it is at version {saved.version - 1} " in violation


def test_states_by_other_code_are_counted(decided: TopicHarness) -> None:
    """The first state is shown, and the other states are one violation."""
    entries = list(decided.shard().items())[:4]
    with shard(decided) as store:
        other = {name: replace(saved, state=b'{"other":1}') for name, saved in entries}
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), other))
    violations = decided.violations("state")
    assert len(entries) == 4 and len(violations) == 2
    assert any(
        "leaves 3 more aggregates with another state of the same version" in violation
        for violation in violations
    )


def test_surplus_aggregate_is_found(decided: TopicHarness) -> None:
    with shard(decided) as store:
        more = {"zoe": StoredState(1, 0, 0, b"{}")}
        store.apply(WriteBatch(store.token(), store.positions(), store.positions(), more))
    (violation,) = decided.violations("state")
    assert "leaves 'zoe' without events, in the shard it is at version 1 by command 0: {}" in violation


def test_shard_ahead_of_its_log(decided: TopicHarness) -> None:
    with shard(decided) as store:
        start = store.positions()
        store.apply(WriteBatch(store.token(), start, start._replace(events=start.events + 7)))
    (violation,) = decided.violations("state")
    assert "is the end of the log, and the shard has folded up to" in violation


def test_untrusted_shard_is_skipped(decided: TopicHarness) -> None:
    (decided.shard_path() / MARKER_FILE).unlink()
    compared = verified(decided, "state").compared
    assert compared[0].skipped.startswith("there is no usable shard in ")
    assert compared[1] == ShardComparison(len(decided.shard(partition=1)))


@pytest.mark.parametrize("other", [{"revision": 2}, {"schema": "another"}, {"cluster_id": "another"}])
def test_shard_of_another_identity_is_skipped(decided: TopicHarness, other: dict[str, Any]) -> None:
    identity = decided.plan().identity(Partition(decided.topics.aggregate, 0), decided.aggregate)
    shutil.rmtree(decided.shard_path())
    open_shard(decided.shard_path(), msgspec.structs.replace(identity, **other)).store.close()
    skipped = verified(decided, "state").compared[0].skipped
    assert f"the next run rebuilds the shard: {next(iter(other))} was" in skipped


def test_shard_behind_is_partly_compared(decided: TopicHarness) -> None:
    with shard(decided) as store:
        behind = store.positions()
    decided.send(*mixture(100, seed=3))
    quietly(decided.plan(machine="another"))
    report = verified(decided, "state")
    behind_until, end = report.compared[0].behind or (0, 0)
    last = max(record.offset for record in decided.records("events"))
    assert ((behind_until, end), report.violations) == ((behind.events, last + 1), [])
    assert verified(decided, "another").compared[0].behind is None


def test_shard_at_work_is_not_behind(decided: TopicHarness) -> None:
    decided.send(*mixture(100, seed=3))
    quietly(decided.plan(machine="another"))
    identity = decided.plan().identity(Partition(decided.topics.aggregate, 0), decided.aggregate)
    open_shard(decided.shard_path(), identity).store.close_without_sync()
    assert decided.mark() == "working"
    assert verified(decided, "state").compared[0].behind is None


@pytest.fixture
def choking(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """An aggregate whose `evolve` fails for the sixth event."""
    harness = TopicHarness(connection, prefix, tmp_path, "awkward", package="awkward", root=ROOT / "tests")
    harness.send(*(command("awkward.Behave", "a", f"b{n}") for n in range(8)))
    quietly(harness.plan())
    rewrite(harness, "events", change(5, {"text": "bone"}))
    return harness


def test_events_beyond_empty_shard_are_folded(choking: TopicHarness) -> None:
    shutil.rmtree(choking.shard_path())
    identity = choking.plan().identity(Partition(choking.topics.aggregate, 0), choking.aggregate)
    open_shard(choking.shard_path(), identity).store.close()
    report = verified(choking, "state")
    (violation,) = map(str, report.violations)
    assert "offset 5 cannot be folded: evolve raised" in violation
    assert report.compared[0] == ShardComparison(behind=(0, choking.records("events")[-1].offset + 1))


def test_events_without_shard_are_folded(choking: TopicHarness) -> None:
    (choking.shard_path() / MARKER_FILE).unlink()
    (violation,) = map(str, verified(choking, "state").violations)
    assert "offset 5 cannot be folded: evolve raised" in violation


def test_unknown_event_is_found(decided: TopicHarness) -> None:
    rewrite(decided, "events", change(5, type="bank_account.Burnt"))
    adopt(decided)
    (violation,) = map(str, verified(decided, "state").violations)
    assert "cannot be read: the code knows no event bank_account.Burnt" in violation
