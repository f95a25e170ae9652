"""A shard is a cache: a lost, damaged or old shard is restored from the log, with the same contents."""

import json
import shutil
from pathlib import Path

import pytest

from aggregates.counter import Counter, decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.recover import fold_events, fold_outcomes, has_lost_events
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.shutdown_marker import MARKER_FILE
from cqrs_cli.state.store import Positions
from tests.support import ROOT
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, run_plan_task

COUNTER = Aggregate.of("counter", decider)
UNREACHABLE_LOG = PartitionLog(Connection("127.0.0.1:1"), Topics("counter"), 0)


def outcome(status: str, **members: object) -> OutcomeEnvelope:
    """Return an outcome with all members that are remembered, except for the members given as None."""
    data = {"status": status, "version": 2, "events": 1, "partition": 0, "offset": 7, "fingerprint": 5}
    members_of_envelope: dict[str, object] = {
        "id": "0/7",
        "type": "t",
        "subject": "a",
        "causationid": "c1",
        **members,
    }
    for name in ("reason", "fingerprint"):
        if name in members_of_envelope:
            data[name] = members_of_envelope.pop(name)
    members_of_data = {name: value for name, value in data.items() if value is not None}
    return read_outcome(json.dumps({**members_of_envelope, "data": members_of_data}).encode())


def dedup_entries(outcome: OutcomeEnvelope) -> dict[tuple[str, str], DedupEntry]:
    entries: dict[tuple[str, str], DedupEntry] = {}
    restore_dedup_entry(entries, outcome, 99)
    return entries


@pytest.mark.covers("decided-once")
@pytest.mark.parametrize("status", ["accepted", "unchanged", "rejected"])
def test_outcome_restores_the_remembered_entry(status: str) -> None:
    assert dedup_entries(outcome(status)) == {("a", "c1"): DedupEntry(99, 7, status, 2, 1, 5)}


@pytest.mark.parametrize(
    "outcome",
    [
        outcome("failed", reason="INVALID_PAYLOAD"),
        outcome("duplicate"),
        outcome("rejected", reason="ID_REUSED"),
        outcome("accepted", fingerprint=None),
        outcome("failed", subject=None),
        outcome("failed", causationid=None),
    ],
)
def test_unremembered_outcomes_stay_unremembered(outcome: OutcomeEnvelope) -> None:
    assert dedup_entries(outcome) == {}


@pytest.fixture
def cache_at_100() -> StateCache:
    """The cache of a shard that has folded up to offset 100."""
    store = MemoryStore(1000)
    cache = StateCache(COUNTER, store, "")
    cache.fold(Positions(commands=100, events=100, outcomes=100))
    return cache


def test_log_shorter_than_shard_is_an_error(cache_at_100: StateCache) -> None:
    with pytest.raises(ContradictionError, match=r"counter.events partition 0 ends at 99, before the 100"):
        fold_events(UNREACHABLE_LOG, COUNTER, cache_at_100, (0, 99))
    with pytest.raises(ContradictionError, match=r"counter.outcomes partition 0 ends at 99, before the 100"):
        fold_outcomes(UNREACHABLE_LOG, cache_at_100, (0, 99), None, 1000)


@pytest.mark.parametrize(("version", "is_lost"), [(0, True), (1, True), (2, False), (3, False)])
def test_events_short_of_outcome_are_lost(version: int, is_lost: bool) -> None:
    state = VersionedState(version, Counter(), 0, 0) if version else None
    assert has_lost_events(state, outcome("accepted")) is is_lost


def lose(bank: TopicHarness, how: str) -> None:
    path = bank.shard_path()
    match how:
        case "deleted":
            shutil.rmtree(path)
        case "without a mark":
            (path / MARKER_FILE).unlink()
        case "torn":
            data = path / "data.mdb"
            data.write_bytes(data.read_bytes()[:5000])
        case "replaced by a copy":
            shutil.copytree(path, path.with_name("copy"))
            shutil.rmtree(path)
            path.with_name("copy").rename(path)


@pytest.mark.covers("decided-once")
@pytest.mark.kafka
@pytest.mark.parametrize("how", ["deleted", "without a mark", "torn", "replaced by a copy"])
def test_lost_shard_is_rebuilt_identically(bank: TopicHarness, how: str) -> None:
    commands = list(mixed_commands(600))
    bank.send(*commands[:400])
    run_plan(bank.plan())
    states = bank.shard_states()
    lose(bank, how)
    run_plan(bank.plan())
    assert bank.shard_states() == states
    bank.send(*commands[:100], *commands[400:])
    run_plan(bank.plan())
    bank.check()


@pytest.mark.kafka
def test_quarantined_shard_is_noted(counters: TopicHarness) -> None:
    run_plan(counters.plan())
    (counters.shard_path() / MARKER_FILE).unlink()
    (result,) = run_plan_task(counters.plan())
    assert "quarantined" in result.notes[0] and "to be rebuilt from the log" in result.notes[0]


@pytest.mark.kafka
def test_shard_of_another_machine_catches_up(bank: TopicHarness) -> None:
    commands = list(mixed_commands(600))
    for machine, start in (("one", 0), ("other", 200), ("one", 400)):
        bank.send(*commands[start : start + 200])
        run_plan(bank.plan(machine=machine))
        bank.check(machine)


def produce(harness: TopicHarness, topic: str, value: bytes) -> None:
    """Write to a topic that only owners may write to."""
    client = producer(harness.connection, enable_idempotence=False)
    client.produce(topic, value, b"a", 0)
    assert client.flush(10) == 0


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "counter.Lost"}, "the code knows no event counter.Lost"),
        ({"aggregateversion": 9}, "'a' is at version 2, but its next event has version 9"),
        ({"aggregateversion": 2, "id": "0/0/0"}, "'a' has two events of version 2"),
        ({"data": {"by": "one"}}, "does not match its class: Expected `int`"),
        ({"aggregateversion": "3"}, "Expected `int`"),
    ],
)
def test_foreign_event_stops_the_owner(
    counters: TopicHarness, changes: dict[str, object], message: str
) -> None:
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    last = json.loads(counters.records("events")[-1].value or b"")
    foreign = {**last, "aggregateversion": 3, "id": "0/1/1", **changes}
    produce(counters, counters.topics.events, json.dumps(foreign).encode())
    counters.send(*increment_commands(1, first=2))
    error = run_plan_for_error(counters.plan())
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert (
        message in error.message
        and f"events partition 0 offset {counters.stable_end('events') - 1}" in error.message
    )
    assert "cqrs tail counter events --partition 0 --from" in error.hint
    assert len(counters.outcomes()) == 2


@pytest.mark.kafka
def test_repeated_event_is_folded_once(counters: TopicHarness) -> None:
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    produce(counters, counters.topics.events, counters.records("events")[-1].value or b"")
    counters.send(*increment_commands(1, first=2))
    run_plan(counters.plan())
    assert counters.outcomes()[-1].data.version == 3


@pytest.mark.kafka
def test_a_foreign_outcome_stops_the_owner(counters: TopicHarness) -> None:
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    produce(counters, counters.topics.outcomes, b"hello")
    error = run_plan_for_error(counters.plan())
    assert isinstance(error, ContradictionError) and "not an outcome" in error.message


def write_changed_project(folder: Path, old: str, new: str) -> Path:
    """Return a project whose counter has other code."""
    package = folder / "aggregates"
    package.mkdir(parents=True)
    text = (ROOT / "aggregates" / "counter.py").read_text()
    assert old in text
    (package / "counter.py").write_text(text.replace(old, new))
    return folder


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        ("counter.value + by", "counter.value + 2 * by", True),
        ('"""A counter', '"""A tally', False),
        ("initial=Counter())", "initial=Counter(), revision=2)", False),
    ],
)
def test_changed_code_without_revision_is_noted(
    counters: TopicHarness, prefix: str, tmp_path: Path, old: str, new: str, warned: bool
) -> None:
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    root = write_changed_project(tmp_path / "later", old, new)
    changed_harness = TopicHarness(counters.connection, prefix, tmp_path, root=root)
    (result,) = run_plan_task(changed_harness.plan())
    assert result.error is None
    assert any("cqrs verify counter --state" in note for note in result.notes) is warned
