"""Proving real topics: what owners decided is clean, and each fault written into the topics is named."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from benchmarks import verify as benchmark
from benchmarks.arena import Arena
from cqrs_cli.cli.render.verify import nothing_compared, verify_document, verify_lines
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.jobs.verify.driver import Verified, plan_verify, verify_here, verify_topics
from cqrs_cli.jobs.verify.state import ShardComparison
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.owner.plan import Partition, shard_folder
from cqrs_cli.proof.partition import Report
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import Identity, open_readonly, open_shard
from cqrs_cli.state.shutdown_marker import MARKER_FILE
from cqrs_cli.state.store import WriteBatch
from tests.support import ROOT
from tests.support.commands import command, mixture
from tests.support.harness import TopicHarness
from tests.support.owners import owned, quietly, running
from tests.support.rewriting import append, edited, rewrite
from tests.support.sampling import sampled
from tests.support.topic_loss import forget_group, remake, shorten
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext

TESTS = ROOT / "tests"
pytestmark = pytest.mark.kafka


@pytest.fixture
def decided(bank: TopicHarness) -> TopicHarness:
    """Accounts on two partitions, decided by a real owner, with every kind of outcome."""
    bank.send(*mixture(300))
    quietly(bank.plan())
    return bank


def verified(harness: TopicHarness, machine: str | None = None) -> Verified:
    shards = None
    if machine is not None:
        shards = shard_folder(harness.folder / machine, harness.topics)
    return verify_here(plan_verify(harness.connection, harness.topics, harness.settings, shards))


def kinds(harness: TopicHarness) -> set[str]:
    """The topics in which something is wrong."""
    return {violation.kind for violation in verified(harness).violations}


def test_what_an_owner_decided_is_clean_and_counted(decided: TopicHarness) -> None:
    done = verified(decided)
    assert done.violations == []
    outcomes = [outcome for partition in range(2) for outcome in decided.outcomes(partition)]
    assert (done.total("commands"), done.total("outcomes")) == (300, 300)
    assert done.total("events") == sum(outcome.data.events for outcome in outcomes)
    assert done.total("dead_letters") == sum(outcome.data.status == "failed" for outcome in outcomes)
    assert done.total("aggregates") == sum(len(decided.shard(partition=partition)) for partition in range(2))


def test_what_is_not_decided_yet_is_no_violation(decided: TopicHarness) -> None:
    decided.send(*mixture(50, seed=2))
    assert decided.violations() == []


def test_topics_without_a_record_are_clean(bank: TopicHarness) -> None:
    assert bank.violations() == []


@pytest.mark.pins("verifiable")
def test_proving_while_an_owner_works_finds_nothing(decided: TopicHarness) -> None:
    with running(decided.plan(once=False)) as owner:
        for seed in range(5):
            decided.send(*mixture(2000, seed=seed))
            assert decided.violations() == []
        eventually(lambda: decided.standing()[0] == decided.end("commands"))
        assert not owner.ended()
    assert decided.violations("state") == []


def test_a_doubled_event(decided: TopicHarness) -> None:
    (at,) = append(decided, "events", decided.records("events")[3])
    (said,) = decided.violations()
    assert said.startswith(f"{decided.topics.events} partition 0 offset {at} is of command ")


def test_a_double_outcome(decided: TopicHarness) -> None:
    (at,) = append(decided, "outcomes", decided.records("outcomes")[7])
    (said,) = decided.violations()
    assert said.startswith(f"{decided.topics.outcomes} partition 0 offset {at} is of command ")


def test_an_orphan_event(decided: TopicHarness) -> None:
    last = decided.records("events")[-1]
    version = json.loads(last.value or b"")["aggregateversion"] + 1
    (at,) = append(decided, "events", edited(last, id="0/9999/0", aggregateversion=version))
    assert decided.violations() == [
        f"{decided.topics.events} partition 0 offset {at} is of command 9999, which is not decided yet"
    ]


def test_a_record_on_the_wrong_partition(decided: TopicHarness) -> None:
    (event,) = append(decided, "events", decided.records("events", 0)[0], partition=1)
    (outcome,) = append(decided, "outcomes", decided.records("outcomes", 1)[0], partition=0)
    assert decided.violations() == [
        f"{decided.topics.outcomes} partition 0 offset {outcome} is of a command on partition 1",
        f"{decided.topics.events} partition 1 offset {event} is of a command on partition 0",
    ]


def test_what_cannot_be_read(decided: TopicHarness) -> None:
    rubbish: list[Kind] = ["events", "outcomes", "dead-letters"]
    for kind in rubbish:
        append(decided, kind, Record(0, 0, b"a", b"\xff"))
    assert kinds(decided) == set(rubbish)


Changes = dict[str, tuple[Kind, Callable[[list[Record]], object]]]


def swap(log: list[Record]) -> None:
    log[4], log[5] = log[5], log[4]


def change(at: int, data: dict[str, Any] | None = None, **members: Any) -> Callable[[list[Record]], None]:
    def edit(log: list[Record]) -> None:
        log[at] = edited(log[at], data, **members)

    return edit


CHANGES: Changes = {
    "a dropped event": ("events", lambda log: log.pop(5)),
    "two events swapped": ("events", swap),
    "a forged version": ("events", change(5, aggregateversion=99)),
    "a wrong count": ("events", change(5, eventcount=2)),
    "another cause": ("events", change(5, causationid="x")),
    "a missing outcome": ("outcomes", lambda log: log.pop(9)),
    "two outcomes swapped": ("outcomes", swap),
    "an outcome with a forged version": ("outcomes", change(9, {"version": 99})),
    "a missing dead letter": ("dead-letters", lambda log: log.pop(1)),
}


@pytest.mark.pins("verifiable")
@pytest.mark.parametrize(
    "fault", sampled(CHANGES, "a dropped event", "a missing outcome", "a forged version")
)
def test_a_fault_in_a_topic_is_found(decided: TopicHarness, fault: str) -> None:
    kind, change = CHANGES[fault]
    rewrite(decided, kind, change)
    assert kinds(decided) != set()


def test_a_topic_written_anew_without_a_fault_is_clean(decided: TopicHarness) -> None:
    for kind in ("events", "outcomes", "dead-letters"):
        rewrite(decided, kind, lambda log: None)
    assert decided.violations() == []


def test_a_torn_command(connection: Connection, prefix: str, tmp_path: Path) -> None:
    floods = TopicHarness(connection, prefix, tmp_path, "awkward", package="awkward", root=TESTS)
    floods.send(*(command("awkward.Flood", "a", f"f{n}", {"count": 3}) for n in range(3)))
    quietly(floods.plan())
    assert floods.violations() == []
    rewrite(floods, "events", lambda log: log.pop(5))
    assert floods.violations() == [
        f"{floods.topics.events} partition 0 offset 3 is of command 1, whose events are missing from event 2 of 3 on"
    ]


def test_commands_deleted_by_retention_are_counted(decided: TopicHarness) -> None:
    shorten(decided, "commands", 20)
    done = verified(decided)
    assert (done.deleted("commands"), done.violations) == (20, [])


def test_outcomes_deleted_by_retention_are_counted(decided: TopicHarness) -> None:
    shorten(decided, "outcomes", decided.records("outcomes")[30].offset)
    done = verified(decided)
    assert (done.deleted("outcomes"), done.violations) == (30, [])


def test_events_that_were_deleted_are_a_violation(decided: TopicHarness) -> None:
    at = decided.records("events")[3].offset
    shorten(decided, "events", at)
    first = next(violation for violation in verified(decided).violations if violation.kind == "events")
    assert str(first) == (
        f"{decided.topics.events} partition 0 offset {at} is where the log starts: events were deleted"
    )


def test_a_lost_offset_of_the_group_is_no_violation(decided: TopicHarness) -> None:
    forget_group(decided)
    assert decided.violations() == []


def test_what_an_operator_accepted_is_counted(counters: TopicHarness) -> None:
    counters.send(*(command("counter.Increment", "a", f"i{n}") for n in range(10)))
    quietly(counters.plan())
    remake(counters, "events")
    counters.send(command("counter.Increment", "a", "last"))
    error = owned(counters.plan())
    assert error is not None and error.exit_code == 5
    assert len(counters.violations()) == 10
    quietly(counters.plan(accept_loss=["counter:0@10"]))
    done = verified(counters)
    assert (done.total("accepted"), done.violations) == (11, [])


def test_a_commands_topic_that_was_created_again_is_a_violation_until_accepted(
    counters: TopicHarness,
) -> None:
    counters.send(*(command("counter.Increment", "a", f"i{n}") for n in range(5)))
    quietly(counters.plan())
    remake(counters, "commands")
    counters.send(*(command("counter.Increment", "a", f"j{n}") for n in range(2)))
    assert counters.violations() != []  # deleting a topic has taken the committed offset with it
    quietly(counters.plan(accept_loss=["counter:0@0"]))
    done = verified(counters)
    assert (done.total("accepted") > 0, done.violations) == (True, [])


def test_what_an_open_transaction_hides_is_waited_for(decided: TopicHarness) -> None:
    foreign = producer(decided.connection, transactional_id=f"{decided.topics.prefix}foreign")
    foreign.init_transactions(10)
    foreign.begin_transaction()
    foreign.produce(decided.topics.outcomes, b"?", partition=0)
    assert foreign.flush(10) == 0
    wanted = plan_verify(decided.connection, decided.topics, decided.settings)
    with pytest.raises(UnavailableError, match=f"open transaction {decided.topics.prefix}foreign"):
        verify_here(replace(wanted, patience=3.0))
    foreign.abort_transaction(10)
    assert decided.violations() == []


@contextmanager
def shard(harness: TopicHarness) -> Iterator[LmdbStore]:
    """The shard of partition 0, for whoever may write there."""
    identity = harness.plan().identity(Partition(harness.topics.aggregate, 0), harness.aggregate)
    opened = open_shard(harness.shard_path(), identity)
    assert not opened.fresh
    with closing(opened.store) as store:
        yield store


def adopt(harness: TopicHarness) -> None:
    """Have the shard of partition 0 believe that the events, which were written anew, are those it has folded."""
    looked = open_readonly(harness.shard_path())
    assert looked is not None
    with closing(looked):
        before = msgspec.json.decode(looked.identity(), type=Identity)
    now = harness.plan().identity(Partition(harness.topics.aggregate, 0), harness.aggregate)
    with closing(open_shard(harness.shard_path(), before).store) as store:
        store.note_identity(encode_json(now))
        start = store.positions()
        store.apply(WriteBatch(store.token(), start, start._replace(events=harness.end("events"))))


class TestState:
    """With the shards, which say what the events came to when they were decided."""

    def test_shards_that_agree(self, decided: TopicHarness) -> None:
        assert decided.violations("state") == []

    @pytest.mark.pins("state-is-events")
    def test_an_altered_payload(self, decided: TopicHarness) -> None:
        events = [json.loads(record.value or b"") for record in decided.records("events")]
        at, name = next((n, e["subject"]) for n, e in enumerate(events) if e["type"].endswith("Deposited"))
        rewrite(decided, "events", change(at, {"amount": 12345}))
        adopt(decided)
        assert decided.violations() == []
        (said,) = map(str, verified(decided, "state").violations)
        assert said.startswith(f"{decided.topics.events} partition 0 offset ")
        assert f"leaves {name!r} at version " in said

    def test_a_stale_shard(self, decided: TopicHarness) -> None:
        name, saved = next(iter(decided.shard().items()))
        with shard(decided) as store:
            older = saved._replace(version=saved.version - 1)
            store.apply(WriteBatch(store.token(), store.positions(), store.positions(), {name: older}))
        (said,) = decided.violations("state")
        assert f"leaves {name!r} at version {saved.version} " in said
        assert f"in the shard it is at version {saved.version - 1} " in said

    def test_an_aggregate_that_is_in_one_place_only(self, decided: TopicHarness) -> None:
        with shard(decided) as store:
            more = {"zoe": StoredState(1, 0, 0, b"{}")}
            store.apply(WriteBatch(store.token(), store.positions(), store.positions(), more))
        (said,) = decided.violations("state")
        assert "leaves 'zoe' without events, in the shard it is at version 1 by command 0: {}" in said

    def test_a_shard_ahead_of_its_log(self, decided: TopicHarness) -> None:
        with shard(decided) as store:
            start = store.positions()
            store.apply(WriteBatch(store.token(), start, start._replace(events=start.events + 7)))
        (said,) = decided.violations("state")
        assert "is the end of the log, and the shard has folded up to" in said

    def test_a_shard_that_cannot_be_trusted_is_skipped_and_said(self, decided: TopicHarness) -> None:
        (decided.shard_path() / MARKER_FILE).unlink()
        compared = verified(decided, "state").compared
        assert compared[0].skipped.startswith("there is no shard to trust in ")
        assert compared[1] == ShardComparison(len(decided.shard(partition=1)))

    @pytest.mark.parametrize("other", [{"revision": 2}, {"schema": "another"}, {"cluster_id": "another"}])
    def test_a_shard_of_another_identity_is_skipped(
        self, decided: TopicHarness, other: dict[str, Any]
    ) -> None:
        identity = decided.plan().identity(Partition(decided.topics.aggregate, 0), decided.aggregate)
        shutil.rmtree(decided.shard_path())
        open_shard(decided.shard_path(), msgspec.structs.replace(identity, **other)).store.close()
        skipped = verified(decided, "state").compared[0].skipped
        assert f"the next run rebuilds the shard: {next(iter(other))} was" in skipped

    def test_a_shard_that_is_behind_is_compared_up_to_where_it_is(self, decided: TopicHarness) -> None:
        with shard(decided) as store:
            behind = store.positions()
        decided.send(*mixture(100, seed=3))
        quietly(decided.plan(machine="another"))
        found = verified(decided, "state")
        at, end = found.compared[0].behind or (0, 0)
        last = max(record.offset for record in decided.records("events"))
        assert ((at, end), found.violations) == ((behind.events, last + 1), [])
        assert verified(decided, "another").compared[0].behind is None

    def test_what_a_shard_at_work_has_not_applied_yet_is_not_behind(self, decided: TopicHarness) -> None:
        decided.send(*mixture(100, seed=3))
        quietly(decided.plan(machine="another"))
        identity = decided.plan().identity(Partition(decided.topics.aggregate, 0), decided.aggregate)
        open_shard(decided.shard_path(), identity).store.abandon()
        assert decided.mark() == "working"
        assert verified(decided, "state").compared[0].behind is None

    def test_events_beyond_an_empty_shard_are_folded_all_the_same(self, decided: TopicHarness) -> None:
        rewrite(decided, "events", change(5, type="bank_account.Burnt"))
        shutil.rmtree(decided.shard_path())
        identity = decided.plan().identity(Partition(decided.topics.aggregate, 0), decided.aggregate)
        open_shard(decided.shard_path(), identity).store.close()
        done = verified(decided, "state")
        (said,) = map(str, done.violations)
        assert "cannot be folded: the code knows no event bank_account.Burnt" in said
        assert done.compared[0] == ShardComparison(behind=(0, decided.records("events")[-1].offset + 1))

    def test_without_a_shard_events_are_folded_all_the_same(self, decided: TopicHarness) -> None:
        rewrite(decided, "events", change(5, type="bank_account.Burnt"))
        (decided.shard_path() / MARKER_FILE).unlink()
        (said,) = map(str, verified(decided, "state").violations)
        assert "cannot be folded: the code knows no event bank_account.Burnt" in said

    def test_events_that_this_code_cannot_fold(self, decided: TopicHarness) -> None:
        rewrite(decided, "events", change(5, type="bank_account.Burnt"))
        adopt(decided)
        (said,) = map(str, verified(decided, "state").violations)
        assert "cannot be folded: the code knows no event bank_account.Burnt" in said


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_all_partitions_make_one_result(decided: TopicHarness, spark: "SparkContext") -> None:
    (at,) = append(decided, "events", decided.records("events", 1)[3], partition=1)
    wanted = plan_verify(decided.connection, decided.topics, decided.settings)
    done, here = verify_topics(spark, wanted), verify_here(wanted)
    assert done._replace(seconds=0.0) == here._replace(seconds=0.0)
    assert [(found.kind, found.partition, found.offset) for found in done.violations] == [("events", 1, at)]


def test_a_shard_that_is_behind_is_not_said_to_be_compared() -> None:
    done = Verified({}, [], 0, {0: ShardComparison(behind=(0, 25)), 1: ShardComparison(7)}, 1.0)
    assert verify_lines("bank_account", done)[1:] == [
        "1 of 2 shards compared: 7 aggregates",
        "0: behind, compared up to offset 0 of 25",
        "no violation",
    ]
    behind = {"aggregates": 0, "behind": {"offset": 0, "end": 25}}
    assert verify_document("bank_account", done)["compared"] == {"0": behind, "1": {"aggregates": 7}}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 command, 1 outcome, 1 event, 1 dead letter, 1 aggregate in 1.0 s (1 command a second)"),
        (2, "2 commands, 2 outcomes, 2 events, 2 dead letters, 2 aggregates in 1.0 s (2 commands a second)"),
    ],
)
def test_what_there_is_one_of_is_not_said_as_of_many(count: int, words: str) -> None:
    report = Report(count, count, count, count, count, {"commands": 1, "dead-letters": 2})
    assert verify_lines("counter", Verified({0: report}, [], 0, {0: ShardComparison(count)}, 1.0)) == [
        f"counter: {words}",
        "deleted by retention: 1 command, 2 dead letters",
        f"1 of 1 shard compared: {words.split(', ')[4].split(' in ')[0]}",
        "no violation",
    ]


def test_shards_that_are_all_empty_are_not_compared() -> None:
    done = Verified({}, [], 0, {0: ShardComparison(behind=(0, 25)), 1: ShardComparison(skipped="none")}, 1.0)
    assert nothing_compared(done)
    assert not nothing_compared(done._replace(compared={**done.compared, 2: ShardComparison(7)}))
    assert not nothing_compared(done._replace(compared={}))


def test_the_benchmark_takes_in_what_is_printed_however_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = {"commands": 1, "violation_count": 0, "seconds": 1.0, "violations": ["x" * 200_000]}
    (tmp_path / "printed").write_text(json.dumps(printed))
    monkeypatch.setattr(benchmark, "command", lambda *arguments: ["cat", "printed"])
    assert benchmark._measured(Arena(tmp_path, Connection(""), 0), 1)["commands_per_s"] == 1


def call(harness: TopicHarness, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The installed `cqrs verify`, in a project of its own."""
    folder = harness.folder / "project"
    if not folder.is_dir():
        folder.mkdir()
        (folder / "cqrs.toml").touch()
        (folder / "aggregates").symlink_to(ROOT / "aggregates")
    environment = {
        "CQRS_BOOTSTRAP_SERVER": harness.connection.bootstrap_server,
        "CQRS_TOPIC_PREFIX": harness.topics.prefix,
        "CQRS_STATE_DIR": str(harness.folder / "state"),
    }
    return subprocess.run(
        [sys.executable, "-m", "cqrs_cli", "verify", *arguments, "-q", "--master", "local[2]"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_prints_its_document_and_ends_with_0(decided: TopicHarness) -> None:
    done = call(decided, "bank_account", "--state", "-o", "json")
    assert (done.stderr, done.returncode) == ("", 0)
    said = json.loads(done.stdout)
    assert list(said) == [
        *("aggregate", "commands", "outcomes", "events", "dead_letters", "aggregates", "deleted"),
        *("accepted_losses", "violations", "violation_count", "seconds", "compared"),
    ]
    assert [said[name] for name in ("commands", "outcomes", "violations")] == [300, 300, []]
    assert said["deleted"] == {"commands": 0, "outcomes": 0, "dead_letters": 0}
    assert sum(found["aggregates"] for found in said["compared"].values()) == said["aggregates"]


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_names_each_violation_and_ends_with_5(decided: TopicHarness) -> None:
    (at,) = append(decided, "outcomes", decided.records("outcomes")[7])
    done = call(decided, "bank_account")
    assert done.returncode == 5
    assert done.stdout.splitlines()[0].startswith(f"{decided.topics.outcomes} partition 0 offset {at} is of")
    assert done.stdout.splitlines()[-1] == "1 violation"
    assert done.stderr == (
        "error: 1 violation in the topics of bank_account; "
        f"look at the first: cqrs tail bank_account outcomes --partition 0 --from {at} -n 1\n"
    )


def test_topics_that_do_not_exist_are_a_matter_of_configuration(
    connection: Connection, prefix: str, bank: TopicHarness
) -> None:
    with pytest.raises(ConfigurationError, match="create what is missing: cqrs init counter"):
        plan_verify(connection, Topics("counter", prefix), bank.settings)
