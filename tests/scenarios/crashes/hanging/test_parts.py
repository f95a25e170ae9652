"""Transactions that no coordinator will end, on topics where only owners should write."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli import failpoints
from cqrs_cli.cli.main import main
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind
from tests.deciding.repartitioned_counters import (
    check_decided_once,
    release_commands,
    round_commands,
    run_first_rounds,
)
from tests.deciding.repartitioned_counters import counters as counters_on
from tests.following.processes.process_harness import ProcessHarness, expected_payments
from tests.support import ROOT
from tests.support.checkout import verify_reactions
from tests.support.commands import increment_commands
from tests.support.hanging_transactions import (
    HangingTransaction,
    Part,
    ReactionPart,
    decide_hanging,
    react_hanging,
)
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, running_owners
from tests.support.publications import publishing_harness
from tests.support.raw_requests import Producer, RawClient
from tests.support.repartitioning import final_statuses, repartition_topics, with_stale_partition
from tests.support.repartitioning_transactions import (
    activation_transaction,
    advance_to,
    forward_transaction,
    split_transaction,
)
from tests.support.sampling import sample_cases
from tests.support.short_timeouts import short_read_timeout
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def leave_transaction_open(harness: TopicHarness, client: RawClient, kind: Kind) -> Producer:
    """Leave a transaction open that no coordinator knows."""
    id = f"{harness.topics.prefix}foreign"
    producer = client.init_producer(id)
    assert client.produce(harness.topics.name(kind), 0, b"?", producer, id) == 0
    return producer


def run_doctor(harness: TopicHarness, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (folder / "cqrs.toml").touch()
    (folder / "aggregates").mkdir(exist_ok=True)
    for name in ("__init__.py", "counter.py"):
        shutil.copy(ROOT / "aggregates" / name, folder / "aggregates")
    capfd.readouterr()
    server, prefix = harness.connection.bootstrap_server, harness.topics.prefix
    status = main(["doctor", "-q", "-o", "json", "-b", server, "--topic-prefix", prefix])
    return status, capfd.readouterr().out


def test_a_brief_stall_stops_nothing(counters: TopicHarness) -> None:
    def stall() -> None:
        raise readers.StalledError("no record is visible at offset 3, but the log ends at 4")

    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    counters.send(*increment_commands(5, first=5))
    with failpoints.call_at("recover.events", stall, times=2):
        run_plan(counters.plan())
    counters.check()


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("kind", ["events", "outcomes"])
def test_a_hanging_transaction_blocks_until_aborted(
    counters: TopicHarness,
    client: RawClient,
    kind: Kind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    hanging_transaction = leave_transaction_open(counters, client, kind)
    counters.send(*increment_commands(5, first=5))
    offset, topic = counters.stable_end(kind), counters.topics.name(kind)
    with short_read_timeout():
        error: Any = run_plan_for_error(counters.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction of an unknown id (producer id {hanging_transaction.id})" in error.message
    abort_command = f"abort --topic {topic} --partition 0 --start-offset {offset}"
    assert abort_command in error.hint
    assert len(counters.records("commands")) == 10 and counters.stable_end("outcomes") == (
        6 if kind == "events" else offset
    )
    monkeypatch.chdir(tmp_path)
    status, output = run_doctor(counters, tmp_path, capfd)
    assert status == 4 and f"{topic} partition 0 is blocked" in output and abort_command in output
    client.abort(topic, 0, hanging_transaction)
    run_plan(counters.plan())
    counters.check()
    assert "none hanging" in run_doctor(counters, tmp_path, capfd)[1]


#: The parts of a transaction that are visible, and the parts that are left open.
TRANSACTION_PARTS: dict[str, tuple[list[Part], list[Part]]] = {
    "nothing visible": ([], ["events", "outcomes", "position"]),
    "no position": ([], ["events", "outcomes"]),
    "outcomes alone": ([], ["outcomes"]),
    "position alone": ([], ["position"]),
    "position visible": (["position"], ["events", "outcomes"]),
    "outcomes missing": (["events", "position"], ["outcomes"]),
    "events missing": (["outcomes", "position"], ["events"]),
    "position missing": (["events", "outcomes"], ["position"]),
    "outcomes visible": (["outcomes"], ["events", "position"]),
    "events visible": (["events"], ["outcomes", "position"]),
}


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(
    "case",
    sample_cases(
        TRANSACTION_PARTS, "nothing visible", "position visible", "events missing", "position missing"
    ),
)
def test_half_a_transaction_is_resolved(counters: TopicHarness, client: RawClient, case: str) -> None:
    """The next owner commits the transaction if a part of it is visible, and aborts it otherwise. It aborts a position
    alone, because the outcomes contain it.
    """
    visible, hidden = TRANSACTION_PARTS[case]
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    decide_hanging(counters, client, increment_commands(3, first=5), visible, hidden)
    with short_read_timeout(), running_owners(counters.plan()) as owner:
        assert owner.error() is None
        (note,) = owner.notes()
    is_committed = bool(visible) and hidden != ["position"]
    assert "KAFKA-20734" in note and ("it is committed" in note) is is_committed
    counters.send(*increment_commands(2, first=8))
    run_plan(counters.plan())
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 11))
    counters.check()


#: Visible and open parts for a process manager that sends two commands for each event, to two topics.
REACTION_PARTS: dict[str, tuple[list[ReactionPart], list[ReactionPart]]] = {
    "nothing visible": ([], ["payment", "order", "positions", "group"]),
    "one command left": ([], ["payment"]),
    "commands left": ([], ["payment", "order"]),
    "position left": ([], ["positions"]),
    "offset left": ([], ["group"]),
    "no offset": ([], ["payment", "order", "positions"]),
    "one command missing": (["order", "positions", "group"], ["payment"]),
    "commands missing": (["positions", "group"], ["payment", "order"]),
    "position missing": (["payment", "order", "group"], ["positions"]),
    "offset missing": (["payment", "order", "positions"], ["group"]),
    "commands visible": (["payment", "order"], ["positions", "group"]),
    "one command visible": (["order"], ["payment", "positions", "group"]),
    "offset visible": (["group"], ["payment", "order", "positions"]),
    "position visible": (["positions"], ["payment", "order", "group"]),
}


@pytest.mark.slow
@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize(
    "case",
    sample_cases(REACTION_PARTS, "one command left"),
)
def test_half_a_reaction_is_resolved(
    connection: Connection, prefix: str, client: RawClient, case: str
) -> None:
    """The next owner of the process manager resolves the transaction: no command is sent twice, and none is lost."""
    visible, hidden = REACTION_PARTS[case]
    harness = ProcessHarness(connection, prefix)
    harness.place_orders(0, 3)
    harness.run_once(from_beginning=True)
    harness.place_orders(3, 2)
    react_hanging(harness, client, visible, hidden)
    with short_read_timeout():
        results = harness.run_once()
        notes = [note for result in results for note in result.notes]
        harness.place_orders(5, 2)
        harness.run_once()
        assert harness.payment_requests() == expected_payments(0, 7)
        report = verify_reactions(harness)
    assert (report.listed_violations, report.changed_commands) == ([], 0)
    assert "KAFKA-20734" in notes[0] and ("it is committed" in notes[0]) is bool(visible)


@pytest.mark.slow
@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("visible", [[], ["public"], ["positions", "group"]])
def test_half_a_publication_is_resolved(
    connection: Connection, prefix: str, client: RawClient, tmp_path: Path, visible: list[ReactionPart]
) -> None:
    parts: tuple[ReactionPart, ...] = ("public", "positions", "group")
    harness = publishing_harness(connection, prefix, tmp_path)
    harness.place_orders(0, 3)
    harness.run_once(from_beginning=True)
    harness.place_orders(3, 2)
    react_hanging(harness, client, visible, [part for part in parts if part not in visible])
    with short_read_timeout():
        harness.run_once()
        harness.place_orders(5, 2)
        harness.run_once()
        report = verify_reactions(harness)
    assert (report.listed_violations, report.command_count) == ([], 7)


#: Visible and open parts of the transactions of a repartitioning.
REPARTITIONING_PARTS: dict[str, tuple[Callable[[TopicHarness], HangingTransaction], list[str], list[str]]] = {
    "no split visible": (split_transaction, [], ["lineage", "position"]),
    "split missing": (split_transaction, ["position"], ["lineage"]),
    "claim of a split missing": (split_transaction, ["lineage"], ["position"]),
    "no activation visible": (
        activation_transaction,
        [],
        ["entries", "lineage", "position"],
    ),
    "activation missing": (
        activation_transaction,
        ["entries", "position"],
        ["lineage"],
    ),
    "activation visible": (
        activation_transaction,
        ["lineage"],
        ["entries", "position"],
    ),
    "entries visible": (
        activation_transaction,
        ["entries"],
        ["lineage", "position"],
    ),
    "claim of an activation missing": (
        activation_transaction,
        ["entries", "lineage"],
        ["position"],
    ),
    "no forwarded command visible": (
        forward_transaction,
        [],
        ["commands", "outcomes", "position"],
    ),
    "forwarded commands missing": (
        forward_transaction,
        ["outcomes", "position"],
        ["commands"],
    ),
    "forwarded commands visible": (
        forward_transaction,
        ["commands"],
        ["outcomes", "position"],
    ),
    "forwarded commands left": (forward_transaction, [], ["commands"]),
}


@pytest.mark.slow
@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(
    "case",
    sample_cases(REPARTITIONING_PARTS, "split missing", "forwarded commands missing"),
)
def test_half_a_repartitioning_is_resolved(
    connection: Connection, prefix: str, tmp_path: Path, client: RawClient, case: str
) -> None:
    """The next owners resolve the transaction: the owner of each key decides its commands once."""
    hanging_transaction, visible, hidden = REPARTITIONING_PARTS[case]
    single = counters_on(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    repartition_topics(single, 2)
    advance_to(single, client, hanging_transaction)
    hanging_transaction(single).write(connection, client, visible, hidden)
    with short_read_timeout(), running_owners(single.plan()) as owner:
        assert owner.error() is None
        assert any("KAFKA-20734" in note for note in owner.notes())
    rounds = (0, 2, 3, 1) if hanging_transaction is forward_transaction else (0, 3, 1)
    single.send(*(with_stale_partition(command, 1) for command in [*round_commands(3), *release_commands(1)]))
    with running_owners(single.plan(once=False)):
        eventually(lambda: len(final_statuses(single)) == 12 * (len(rounds) + 1))
    check_decided_once(single, *rounds)
