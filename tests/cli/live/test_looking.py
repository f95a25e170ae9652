"""`cqrs top` on the real broker."""

from pathlib import Path

import pytest

from cqrs_cli.cli.live.model import Look
from cqrs_cli.cli.live.polling import StatusPoller, look_or_tell
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin import transactions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.trials.slow import tell_slow
from tests.cli.live.terminal import terminal
from tests.support import AGGREGATES
from tests.support.commands import Sent, command
from tests.support.harness import TopicHarness
from tests.support.owners import running
from tests.support.stretch import begin, settled
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def opened(account: str) -> Sent:
    return command("bank_account.Open", account, f"open-{account}", {"owner": "Ada"})


def deposited(account: str) -> Sent:
    return command("bank_account.Deposit", account, f"deposit-{account}", {"amount": 1})


def looker_of(bank: TopicHarness) -> StatusPoller:
    topics = {name: Topics(name, bank.topics.prefix) for name in ("bank_account", "order")}
    return StatusPoller(bank.connection, topics, bank.folder / "state")


def test_looks_see_what_happens(single_bank: TopicHarness) -> None:
    looker, where = looker_of(single_bank), ("bank_account", 0)
    assert list(looker.missing) == ["order"]
    first = looker.look().partitions[where]
    assert (first.end, first.lag, first.run, first.oldest, first.reasons) == (0, 0, "", None, {})
    single_bank.send(deposited("a"), opened("a"))
    waiting = looker.look()
    part = waiting.partitions[where]
    assert part.lag == 2
    assert part.oldest is not None
    assert waiting.clock - 60_000 < part.oldest <= waiting.clock + 60_000
    with running(single_bank.plan(once=False)) as owner:

        def decided() -> Look | None:
            seen = looker.look()
            return seen if seen.partitions[where].lag == 0 else None

        part = eventually(decided).partitions[where]  # type: ignore[union-attr]
        assert (part.run, part.stopped, part.oldest) == (owner.plan.run, False, None)
        assert (part.counts["accepted"], part.counts["rejected"]) == (1, 1)
    ended = looker.look().partitions[where]
    assert ended.stopped
    looker.close()


def test_new_outcomes_tell_reasons_and_latency(single_bank: TopicHarness) -> None:
    looker, where = looker_of(single_bank), ("bank_account", 0)
    with running(single_bank.plan(once=False)):
        looker.look()
        single_bank.send(deposited("a"), deposited("b"))
        eventually(lambda: len(single_bank.records("outcomes")) == 2)
        part = eventually(lambda: told if (told := looker.look().partitions[where]).reasons else None)
        assert part is not None
        assert part.reasons == {"NOT_OPEN": 2}
        assert part.latency is not None
        assert 0 <= part.latency < 60_000
        assert looker.look().partitions[where].reasons == {}
    looker.close()


def test_notes_name_what_hides_commands(single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "YOUNG_MS", 0)
    looker, where = looker_of(single_bank), ("bank_account", 0)
    client = begin(single_bank.connection, single_bank.topics.commands, [b"?"])
    assert looker.look().partitions[where].notes == ()  # most transactions end before the next look
    (note,) = looker.look().partitions[where].notes
    assert "nobody sees the records from offset 0 on" in note
    assert "end the program that opened it, or kafka-transactions.sh" in note
    client.abort_transaction(10)
    settled(single_bank.connection, single_bank.topics.commands)
    assert looker.look().partitions[where].notes == ()
    looker.close()


def test_notes_name_a_slow_command(single_bank: TopicHarness) -> None:
    shard = single_bank.shard_path()
    shard.mkdir(parents=True)
    tell_slow(shard, 7, 6.0)
    looker = looker_of(single_bank)
    (note,) = looker.look().partitions["bank_account", 0].notes
    assert note.startswith("command 7 is being decided for ")
    looker.close()


def test_a_lost_broker_is_told(single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    looker = looker_of(single_bank)
    assert isinstance(look_or_tell(looker), Look)
    monkeypatch.setattr("cqrs_cli.cli.live.polling.committed", lost)
    assert str(look_or_tell(looker)).startswith("no answer from Kafka at ")
    monkeypatch.undo()
    assert isinstance(look_or_tell(looker), Look)
    looker.close()


def lost(*_: object) -> object:
    from confluent_kafka import KafkaError, KafkaException

    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_missing_topics_are_an_error(connection: Connection, prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        StatusPoller(connection, {"order": Topics("order", prefix)}, tmp_path)


def test_top_shows_the_partitions(single_bank: TopicHarness, tmp_path: Path) -> None:
    (tmp_path / "cqrs.toml").touch()
    single_bank.send(opened("a"))
    place = ("-b", single_bank.connection.bootstrap_server, "--topic-prefix", single_bank.topics.prefix)
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    with terminal(tmp_path, "-m", "cqrs_cli", "top", *place, "--every", "200ms") as live:
        live.see("bank_account 0")
        live.press("q")
        assert live.ended() == 0
        assert "order: topic" in live.read()
