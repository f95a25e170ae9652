"""Snapshots of the partitions of aggregates, on the real broker."""

from math import inf
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.observer import observing, reached
from cqrs_cli.status.aggregates import aggregate_statuses
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.reader import StatusReader
from cqrs_cli.telemetry.status_file import StatusFile
from tests.cli.live.terminal import terminal
from tests.support import AGGREGATES
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.repartitioning import repartition_topics
from tests.support.transactional_topic import await_marker, begin_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def open_command(account: str) -> CommandRecord:
    return command("bank_account.Open", account, f"open-{account}", {"owner": "Ada"})


def deposit_command(account: str) -> CommandRecord:
    return command("bank_account.Deposit", account, f"deposit-{account}", {"amount": 1})


def reader_of(bank: TopicHarness) -> StatusReader:
    topics = {name: Topics(name, bank.topics.prefix) for name in ("bank_account", "order")}
    return StatusReader(bank.connection, topics, bank.folder / "state", confirm_hidden=True, max_samples=inf)


def only_status(reader: StatusReader) -> PartitionStatus:
    (status,) = reader.poll_statuses().statuses
    return status


def test_status_follows_commands_and_runs(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    assert list(reader.poll_statuses().missing) == ["order"]
    first = only_status(reader)
    assert (first.end, first.lag, first.owner, first.oldest_age_ms, first.reasons) == (0, 0, None, None, {})
    single_bank.send(deposit_command("a"), open_command("a"))
    undecided = only_status(reader)
    assert undecided.lag == 2
    assert undecided.oldest_age_ms is not None and undecided.oldest_age_ms <= 60_000
    with running_owners(single_bank.plan(once=False)) as owner:
        status = eventually(lambda: status if (status := only_status(reader)).lag == 0 else None)
        assert status is not None and status.owner is not None and status.counts is not None
        assert (status.owner.run, status.is_owned, status.oldest_age_ms) == (owner.plan.run, True, None)
        assert (status.counts.accepted, status.counts.rejected) == (1, 1)
    last = only_status(reader)
    assert last.owner is not None and last.owner.stopped and not last.is_owned
    reader.close()


def repartitioning_stages(reader: StatusReader) -> str:
    """Return the stage of each partition, or `-` without a repartitioning."""
    return " ".join(partition.repartitioning_stage or "-" for partition in reader.poll_statuses().statuses)


def test_status_follows_a_repartitioning(single_bank: TopicHarness) -> None:
    """An open reader finds the new partitions, and the repartitioning stage of each partition."""
    reader = reader_of(single_bank)
    run_plan(single_bank.plan())
    assert repartitioning_stages(reader) == "-"
    repartition_topics(single_bank, 2)
    assert repartitioning_stages(reader) == "settles waits"
    with running_owners(single_bank.plan(once=False)):
        eventually(lambda: repartitioning_stages(reader) == "- -")
    reader.close()


def test_new_outcomes_give_reasons_and_latency(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    with running_owners(single_bank.plan(once=False)):
        reader.poll_statuses()
        single_bank.send(deposit_command("a"), deposit_command("b"))
        eventually(lambda: len(single_bank.records("outcomes")) == 2)
        status = eventually(lambda: status if (status := only_status(reader)).reasons else None)
        assert status is not None and status.latency_ms is not None
        assert status.reasons == {"NOT_OPEN": 2}
        assert 0 <= status.latency_ms < 60_000
        assert only_status(reader).reasons == {}
    reader.close()


@pytest.mark.usefixtures("no_young_transactions")
def test_remarks_name_what_hides_commands(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    client = begin_transaction(single_bank.connection, single_bank.topics.commands, [b"?"])
    assert only_status(reader).remarks() == []  # most transactions end before the next snapshot
    (remark,) = only_status(reader).remarks()
    assert "the records from offset 0 on are invisible" in remark
    assert "end the program that opened it, or kafka-transactions.sh" in remark
    client.abort_transaction(10)
    await_marker(single_bank.connection, single_bank.topics.commands)
    assert only_status(reader).remarks() == []
    reader.close()


def test_remarks_name_a_slow_command(single_bank: TopicHarness) -> None:
    shard = single_bank.shard_path()
    shard.mkdir(parents=True)
    with observing(StatusFile(shard).listener):
        reached("record.slow", offset=7, seconds=6.0)
    (status,) = aggregate_statuses(single_bank.connection, single_bank.topics, single_bank.folder / "state")
    (remark,) = status.remarks()
    assert remark.startswith("command 7 is being decided for ")


def test_lost_broker_is_polled_again(single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(single_bank)
    reader.poll_statuses()
    monkeypatch.setattr("cqrs_cli.ownership.committed_claims.committed_offsets", raise_transport_error)
    with pytest.raises(UnavailableError, match="no answer from Kafka at "):
        reader.poll_statuses()
    monkeypatch.undo()
    assert only_status(reader).lag == 0
    reader.close()


def raise_transport_error(*_: object) -> object:
    from confluent_kafka import KafkaError, KafkaException

    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_missing_topics_are_an_error(connection: Connection, prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        StatusReader(connection, {"order": Topics("order", prefix)}, tmp_path)


@pytest.fixture
def project_options(single_bank: TopicHarness, tmp_path: Path) -> tuple[str, ...]:
    """The options for a project whose only command is undecided."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    single_bank.send(open_command("a"))
    return "-b", single_bank.connection.bootstrap_server, "--topic-prefix", single_bank.topics.prefix


def test_top_shows_the_partitions(project_options: tuple[str, ...], tmp_path: Path) -> None:
    with terminal(tmp_path, "-m", "cqrs_cli", "top", *project_options, "--every", "200ms") as live:
        live.wait_for_text("bank_account 0")
        live.press("q")
        assert live.wait_for_exit() == 0
        assert "order: topic" in live.read()
