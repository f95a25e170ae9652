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
from tests.support import ROOT, hanging_repartitioning
from tests.support.checkout import verified
from tests.support.commands import increments
from tests.support.hanging_transactions import (
    Hanging,
    Part,
    ReactionPart,
    decide_hanging,
    react_hanging,
)
from tests.support.harness import TopicHarness
from tests.support.owners import owned, quietly, running
from tests.support.raw_requests import Producer, Raw
from tests.support.repartitioning import finals, grow, stale
from tests.support.sampling import sampled
from tests.support.short_timeouts import impatience
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def hang(harness: TopicHarness, broker: Raw, kind: Kind) -> Producer:
    """Leave a transaction open that no coordinator knows."""
    id = f"{harness.topics.prefix}foreign"
    producer = broker.init_producer(id)
    assert broker.produce(harness.topics.name(kind), 0, b"?", producer, id) == 0
    return producer


def doctor(harness: TopicHarness, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
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
        raise readers.StalledError("no record is visible at offset 3, though the log ends at 4")

    counters.send(*increments(5))
    quietly(counters.plan())
    counters.send(*increments(5, first=5))
    with failpoints.call_at("recover.events", stall, times=2):
        quietly(counters.plan())
    counters.check()


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("kind", ["events", "outcomes"])
def test_a_hanging_transaction_blocks_until_aborted(
    counters: TopicHarness,
    broker: Raw,
    kind: Kind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    hanging = hang(counters, broker, kind)
    counters.send(*increments(5, first=5))
    offset, topic = counters.end(kind), counters.topics.name(kind)
    with impatience():
        error: Any = owned(counters.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction of an unknown id (producer id {hanging.id})" in error.message
    how = f"abort --topic {topic} --partition 0 --start-offset {offset}"
    assert how in error.hint
    assert len(counters.records("commands")) == 10 and counters.end("outcomes") == (
        6 if kind == "events" else offset
    )
    monkeypatch.chdir(tmp_path)
    status, output = doctor(counters, tmp_path, capfd)
    assert status == 4 and f"{topic} partition 0 is blocked" in output and how in output
    broker.abort(topic, 0, hanging)
    quietly(counters.plan())
    counters.check()
    assert "none hanging" in doctor(counters, tmp_path, capfd)[1]


#: The parts of a transaction that are visible, and the parts that are left open.
HALVES: dict[str, tuple[list[Part], list[Part]]] = {
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
    "half", sampled(HALVES, "nothing visible", "position visible", "events missing", "position missing")
)
def test_half_a_transaction_is_settled(counters: TopicHarness, broker: Raw, half: str) -> None:
    """The next owner commits the transaction if a part of it is visible, and aborts it otherwise."""
    visible, hidden = HALVES[half]
    counters.send(*increments(5))
    quietly(counters.plan())
    decide_hanging(counters, broker, increments(3, first=5), visible, hidden)
    with impatience(), running(counters.plan()) as owner:
        assert owner.error() is None
        (note,) = owner.notes()
    assert "KAFKA-20734" in note and ("it is committed" in note) is bool(visible)
    counters.send(*increments(2, first=8))
    quietly(counters.plan())
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 11))
    counters.check()


#: Visible and open parts for a process manager that sends two commands for each event, to two topics.
REACTIONS: dict[str, tuple[list[ReactionPart], list[ReactionPart]]] = {
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
    "half",
    sampled(REACTIONS, "one command left"),
)
def test_half_a_reaction_is_settled(connection: Connection, prefix: str, broker: Raw, half: str) -> None:
    """The next owner of the process manager resolves the transaction: no command is sent twice, and none is lost."""
    visible, hidden = REACTIONS[half]
    harness = ProcessHarness(connection, prefix)
    harness.place_orders(0, 3)
    harness.run_once(beginning=True)
    harness.place_orders(3, 2)
    react_hanging(harness, broker, visible, hidden)
    with impatience():
        results = harness.run_once()
        notes = [note for result in results for note in result.notes]
        harness.place_orders(5, 2)
        harness.run_once()
        assert harness.payment_requests() == expected_payments(0, 7)
        report = verified(harness)
    assert (report.listed, report.changed_commands) == ([], 0)
    assert "KAFKA-20734" in notes[0] and ("it is committed" in notes[0]) is bool(visible)


#: Visible and open parts of the transactions of a repartitioning.
GROWTHS: dict[str, tuple[Callable[[TopicHarness], Hanging], list[str], list[str]]] = {
    "no split visible": (hanging_repartitioning.split, [], ["lineage", "position"]),
    "split missing": (hanging_repartitioning.split, ["position"], ["lineage"]),
    "claim of a split missing": (hanging_repartitioning.split, ["lineage"], ["position"]),
    "no beginning visible": (hanging_repartitioning.begin, [], ["entries", "lineage", "position"]),
    "beginning missing": (hanging_repartitioning.begin, ["entries", "position"], ["lineage"]),
    "beginning visible": (hanging_repartitioning.begin, ["lineage"], ["entries", "position"]),
    "entries visible": (hanging_repartitioning.begin, ["entries"], ["lineage", "position"]),
    "claim of a beginning missing": (hanging_repartitioning.begin, ["entries", "lineage"], ["position"]),
    "no moved command visible": (hanging_repartitioning.forward, [], ["commands", "outcomes", "position"]),
    "moved commands missing": (hanging_repartitioning.forward, ["outcomes", "position"], ["commands"]),
    "moved commands visible": (hanging_repartitioning.forward, ["commands"], ["outcomes", "position"]),
    "moved commands left": (hanging_repartitioning.forward, [], ["commands"]),
}


@pytest.mark.slow
@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(
    "half",
    sampled(GROWTHS, "split missing", "moved commands missing"),
)
def test_half_a_growth_is_settled(
    connection: Connection, prefix: str, tmp_path: Path, broker: Raw, half: str
) -> None:
    """The next owners resolve the transaction: the owner of each key decides its commands once."""
    hanging, visible, hidden = GROWTHS[half]
    single = counters_on(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    grow(single, 2)
    hanging_repartitioning.reach(single, broker, hanging)
    hanging(single).leave(connection, broker, visible, hidden)
    with impatience(), running(single.plan()) as owner:
        assert owner.error() is None
        assert any("KAFKA-20734" in note for note in owner.notes())
    rounds = (0, 2, 3, 1) if hanging is hanging_repartitioning.forward else (0, 3, 1)
    single.send(*(stale(command, 1) for command in [*round_commands(3), *release_commands(1)]))
    with running(single.plan(once=False)):
        eventually(lambda: len(finals(single)) == 12 * (len(rounds) + 1))
    check_decided_once(single, *rounds)
