"""Snapshots of the partitions of aggregates, on the real broker."""

from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.trials.slow_command import write_slow_command
from cqrs_cli.status.aggregates import aggregate_statuses
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.reader import StatusReader
from tests.cli.live.terminal import terminal
from tests.support import AGGREGATES
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.repartitioning import repartition_topics
from tests.support.transactional_topic import await_marker, begin_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def opened(account: str) -> CommandRecord:
    return command("bank_account.Open", account, f"open-{account}", {"owner": "Ada"})


def deposited(account: str) -> CommandRecord:
    return command("bank_account.Deposit", account, f"deposit-{account}", {"amount": 1})


def reader_of(bank: TopicHarness) -> StatusReader:
    topics = {name: Topics(name, bank.topics.prefix) for name in ("bank_account", "order")}
    return StatusReader(
        bank.connection, topics, bank.folder / "state", confirm_hidden=True, with_samples=True
    )


def only(reader: StatusReader) -> PartitionStatus:
    (place,) = reader.poll_statuses().statuses
    return place


def test_looks_see_what_happens(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    assert list(reader.poll_statuses().missing) == ["order"]
    first = only(reader)
    assert (first.end, first.lag, first.owner, first.oldest, first.reasons) == (0, 0, None, None, {})
    single_bank.send(deposited("a"), opened("a"))
    waiting = only(reader)
    assert waiting.lag == 2
    assert waiting.oldest is not None and waiting.oldest <= 60_000
    with running_owners(single_bank.plan(once=False)) as owner:
        place = eventually(lambda: status if (status := only(reader)).lag == 0 else None)
        assert place is not None and place.owner is not None and place.counts is not None
        assert (place.owner.run, place.owned, place.oldest) == (owner.plan.run, True, None)
        assert (place.counts.accepted, place.counts.rejected) == (1, 1)
    last = only(reader)
    assert last.owner is not None and last.owner.stopped and not last.owned
    reader.close()


def stages(reader: StatusReader) -> str:
    return " ".join(place.growth or "-" for place in reader.poll_statuses().statuses)


def test_looks_follow_a_growth(single_bank: TopicHarness) -> None:
    """The same connections show new partitions, and the partition history of each."""
    reader = reader_of(single_bank)
    run_plan(single_bank.plan())
    assert stages(reader) == "-"
    repartition_topics(single_bank, 2)
    assert stages(reader) == "settles waits"
    with running_owners(single_bank.plan(once=False)):
        eventually(lambda: stages(reader) == "- -")
    reader.close()


def test_new_outcomes_tell_reasons_and_latency(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    with running_owners(single_bank.plan(once=False)):
        reader.poll_statuses()
        single_bank.send(deposited("a"), deposited("b"))
        eventually(lambda: len(single_bank.records("outcomes")) == 2)
        place = eventually(lambda: status if (status := only(reader)).reasons else None)
        assert place is not None and place.latency is not None
        assert place.reasons == {"NOT_OPEN": 2}
        assert 0 <= place.latency < 60_000
        assert only(reader).reasons == {}
    reader.close()


@pytest.mark.usefixtures("no_young_transactions")
def test_remarks_name_what_hides_commands(single_bank: TopicHarness) -> None:
    reader = reader_of(single_bank)
    client = begin_transaction(single_bank.connection, single_bank.topics.commands, [b"?"])
    assert only(reader).remarks() == []  # most transactions end before the next snapshot
    (remark,) = only(reader).remarks()
    assert "the records from offset 0 on are invisible" in remark
    assert "end the program that opened it, or kafka-transactions.sh" in remark
    client.abort_transaction(10)
    await_marker(single_bank.connection, single_bank.topics.commands)
    assert only(reader).remarks() == []
    reader.close()


def test_remarks_name_a_slow_command(single_bank: TopicHarness) -> None:
    shard = single_bank.shard_path()
    shard.mkdir(parents=True)
    write_slow_command(shard, 7, 6.0)
    (place,) = aggregate_statuses(single_bank.connection, single_bank.topics, single_bank.folder / "state")
    (remark,) = place.remarks()
    assert remark.startswith("command 7 is being decided for ")


def test_lost_broker_is_looked_for_again(single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(single_bank)
    reader.poll_statuses()
    monkeypatch.setattr("cqrs_cli.ownership.committed_claims.committed_offsets", lost)
    with pytest.raises(UnavailableError, match="no answer from Kafka at "):
        reader.poll_statuses()
    monkeypatch.undo()
    assert only(reader).lag == 0
    reader.close()


def lost(*_: object) -> object:
    from confluent_kafka import KafkaError, KafkaException

    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_missing_topics_are_an_error(connection: Connection, prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        StatusReader(connection, {"order": Topics("order", prefix)}, tmp_path)


@pytest.fixture
def place(single_bank: TopicHarness, tmp_path: Path) -> tuple[str, ...]:
    """The options for a project whose only command is undecided."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    single_bank.send(opened("a"))
    return "-b", single_bank.connection.bootstrap_server, "--topic-prefix", single_bank.topics.prefix


def test_top_shows_the_partitions(place: tuple[str, ...], tmp_path: Path) -> None:
    with terminal(tmp_path, "-m", "cqrs_cli", "top", *place, "--every", "200ms") as live:
        live.wait_for_text("bank_account 0")
        live.press("q")
        assert live.wait_for_exit() == 0
        assert "order: topic" in live.read()
