"""A transaction that nobody will ever end, on a topic where only owners should write."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from tests.support import ROOT
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import owned, quietly
from tests.support.raw import Producer, Raw, raw

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(counters: TopicHarness) -> Iterator[Raw]:
    """One that believes what producers say of their transactions, as all did before Kafka 3.6."""
    with raw(counters.connection) as broker:
        broker.configure_broker("transaction.partition.verification.enable", "false")
        yield broker
        broker.configure_broker("transaction.partition.verification.enable", "true")


@contextmanager
def impatience() -> Iterator[None]:
    """Readers soon give up on what they cannot read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers.read_with, "__defaults__", (10_000, 0.5))
        patch.setattr(readers.last_record, "__defaults__", (0.5,))
        yield


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


def test_a_brief_stall_stops_nothing(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    counters.send(*increments(5, first=5))
    last_record, stalls = PartitionLog.last_record, iter([True] * 2)

    def stalled(*arguments: Any) -> Any:
        if next(stalls, False):
            raise readers.StalledError("nothing to read at offset 3, though the log ends at 4")
        return last_record(*arguments)

    monkeypatch.setattr(PartitionLog, "last_record", stalled)
    quietly(counters.plan())
    assert next(stalls, None) is None
    counters.check()


@pytest.mark.pins("nothing-skipped")
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
    at, topic = counters.end(kind), counters.topics.name(kind)
    with impatience():
        error: Any = owned(counters.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction of an unknown id (producer id {hanging.id})" in error.message
    how = f"abort --topic {topic} --partition 0 --start-offset {at}"
    assert how in error.hint
    assert len(counters.records("commands")) == 10 and counters.end("outcomes") == (
        6 if kind == "events" else at
    )
    monkeypatch.chdir(tmp_path)
    status, said = doctor(counters, tmp_path, capfd)
    assert status == 4 and f"{topic} partition 0 is blocked" in said and how in said
    broker.abort(topic, 0, hanging)
    quietly(counters.plan())
    counters.check()
    assert "none hanging" in doctor(counters, tmp_path, capfd)[1]
