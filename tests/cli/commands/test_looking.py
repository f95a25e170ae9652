"""`show`, `tail` and `status` on topics that an owner has decided."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from cqrs_cli import registry
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.stored import StoredState
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.owner.claim import Claim, Counts
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import Identity, open_shard
from cqrs_cli.state.store import WriteBatch
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.deciding import Owner

pytestmark = pytest.mark.kafka
BANK = registry.load("bank_account", "aggregates", AGGREGATES.parent)


@pytest.fixture
def decided(on_broker: Cqrs, connection: Connection, prefix: str) -> Cqrs:
    """`cqrs` on topics with a's and b's accounts: five events, a refusal and a record that is no command."""
    owner = Owner(connection, Topics("bank_account", prefix), BANK)
    for subject, command, *fields in (
        ("a", "Open", "owner=Ada"),
        ("b", "Open", "owner=Bob"),
        ("a", "Deposit", "amount=100"),
        ("a", "Withdraw", "amount=30"),
        ("b", "Withdraw", "amount=1"),
        ("b", "Deposit", "amount=5"),
    ):
        assert on_broker("send", "bank_account", subject, command, *fields).status == 0
    producer = clients.producer(connection)
    producer.produce(f"{prefix}bank_account.commands", b"\xff", b"x", 0, headers=HEADERS)  # type: ignore[arg-type]
    producer.flush()
    owner.decide()
    return on_broker


def test_show_folds_the_events_of_one_aggregate(decided: Cqrs) -> None:
    shown = decided("show", "bank_account", "a", "-o", "json").document
    assert (shown["aggregate"], shown["id"], shown["version"]) == ("bank_account", "a", 3)
    assert shown["state"] == {"owner": "Ada", "balance": 70, "closed": False}


def test_show_at_a_version_and_at_a_time(decided: Cqrs) -> None:
    history = decided("show", "bank_account", "a", "--history", "-o", "json").document["history"]
    assert [event["type"] for event in history] == [
        f"bank_account.{t}" for t in ("Opened", "Deposited", "Withdrawn")
    ]
    for at in ("2", history[1]["time"]):
        shown = decided("show", "bank_account", "a", "--at", at, "-o", "json").document
        assert (shown["version"], shown["state"]["balance"]) == (2, 100)


def test_show_of_what_does_not_exist_has_version_0(decided: Cqrs) -> None:
    said = decided("show", "bank_account", "nobody", "-o", "json")
    assert (said.status, said.document["version"]) == (0, 0)


def test_show_of_a_version_to_come_ends_with_2(decided: Cqrs) -> None:
    said = decided("show", "bank_account", "a", "--at", "9")
    assert (said.status, said.err) == (
        2,
        "error: bank_account a is at version 3, not 9; leave --at out to see it\n",
    )


def test_show_finds_what_is_anywhere_when_the_partitioner_is_off(
    decided: Cqrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "off")
    assert decided("show", "bank_account", "a", "-o", "json").document["version"] == 3


def test_show_text_has_state_and_history(decided: Cqrs) -> None:
    said = decided("show", "bank_account", "a", "--history")
    assert said.out.startswith("bank_account a  version 3, since 20")
    assert "balance" in said.out
    assert "Withdrawn" in said.out


def test_tail_prints_from_the_beginning_to_the_present_end_in_order(decided: Cqrs) -> None:
    lines = decided("tail", "bank_account", "commands", "-o", "json").lines
    assert [set(line) >= {"partition", "offset", "timestamp", "key", "message"} for line in lines] == [
        True
    ] * 7
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert [line["key"] for line in lines] == ["a", "b", "a", "a", "b", "b", "x"]


def test_tail_shows_why_a_letter_is_dead(decided: Cqrs) -> None:
    (line,) = decided("tail", "bank_account", "dead-letters", "-o", "json").lines
    assert (line["message"], line["encoding"]) == ("/w==", "base64")
    assert line["headers"]["cqrs.reason"] == "INVALID_ENVELOPE"


def test_tail_has_the_last_or_the_first_so_many(decided: Cqrs) -> None:
    def keys(*arguments: str) -> list[str]:
        return [
            line["key"]
            for line in decided("tail", "bank_account", "commands", "-o", "json", *arguments).lines
        ]

    assert keys("-n", "3") == ["b", "b", "x"]
    assert keys("-n", "3", "--from", "beginning") == ["a", "b", "a"]
    assert keys("-n", "100") == ["a", "b", "a", "a", "b", "b", "x"]
    assert keys("-n", "1", "--aggregate-id", "a") == ["a"]
    assert keys("-n", "0") == keys("--from", "end") == keys("--aggregate-id", "nobody") == []


def test_tail_begins_at_an_offset_or_a_time(decided: Cqrs) -> None:
    whole = decided("tail", "bank_account", "outcomes", "-o", "json").lines
    from_offset = decided("tail", "bank_account", "outcomes", "-o", "json", "--from", "1").lines
    assert from_offset == [line for line in whole if line["offset"] >= 1]
    time = whole[3]["message"]["time"]
    from_time = decided("tail", "bank_account", "outcomes", "-o", "json", "--from", time).lines
    assert from_time == [line for line in whole if line["message"]["time"] >= time]


def test_tail_shows_the_record_of_a_place(decided: Cqrs) -> None:
    whole = decided("tail", "bank_account", "commands", "-o", "json").lines
    for record in whole:
        place = ("--partition", str(record["partition"]), "--from", str(record["offset"]), "-n", "1")
        assert decided("tail", "bank_account", "commands", "-o", "json", *place).lines == [record]
    both = ("--partition", "0", "--partition", "1")
    assert decided("tail", "bank_account", "commands", "-o", "json", *both).lines == whole


def test_tail_of_a_partition_that_does_not_exist_ends_with_2(decided: Cqrs, prefix: str) -> None:
    said = decided("tail", "bank_account", "events", "--partition", "2")
    assert (said.status, said.err) == (
        2,
        f"error: {prefix}bank_account.events has no partition 2; it has 0 to 1\n",
    )


def test_tail_of_one_aggregates_events(decided: Cqrs) -> None:
    said = decided("tail", "bank_account", "events", "--aggregate-id", "b")
    assert [text.split("  ", 3)[3] for text in said.out.splitlines()] == [
        'v1  bank_account.Opened  {"owner":"Bob"}',
        'v2  bank_account.Deposited  {"amount":5}',
    ]


def test_tail_follows_what_comes(decided: Cqrs, connection: Connection, prefix: str) -> None:
    place = ("-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json")
    arguments = ("tail", "bank_account", "commands", "-f", "--from", "beginning", "-n", "8", *place)
    with subprocess.Popen([sys.executable, "-m", "cqrs_cli", *arguments], stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        for _ in range(7):  # what is there is printed at once, though nothing ends
            follower.stdout.readline()
        decided("send", "bank_account", "new", "Close")
        assert json.loads(follower.stdout.readline())["key"] == "new"
        assert follower.wait(10) == 0


@pytest.mark.parametrize(
    "command", [("show", "counter", "c"), ("tail", "counter", "events"), ("status", "counter")]
)
def test_missing_topics_end_with_3_and_the_command_that_makes_these(
    on_broker: Cqrs, command: tuple[str, ...], connection: Connection, prefix: str
) -> None:
    said = on_broker(*command)
    assert (said.status, said.out) == (3, "")
    place = f"-b {connection.bootstrap_server} --topic-prefix {prefix}"
    assert said.err.endswith(f"does not exist; create it: cqrs init {place}\n")


def test_status_before_anything_is_decided(decided: Cqrs) -> None:
    status = decided("status", "bank_account", "-o", "json").document
    partitions = status["aggregates"]["bank_account"]["partitions"]
    assert status["lag"] == 7 == sum(partition["end"] for partition in partitions)
    assert [(p["position"], p["owner"], p["state"]) for p in partitions] == [(None, None, None)] * 2


def test_status_shows_the_owners_claim_and_the_shard(
    decided: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    counts = Counts(accepted=4, rejected=1, first=1000, last=3000)
    claimed(connection, Topics("bank_account", prefix), Claim(5, "run-1", 0, 0, 1, "topic-id", 2, counts))
    shard_with(tmp_path / ".cqrs/state" / f"{prefix}bank_account" / "0", "topic-id").close()
    status = decided("status", "bank_account", "--digest", "-o", "json").document["aggregates"][
        "bank_account"
    ]
    first, second = status["partitions"]
    assert (first["position"], first["lag"]) == (1, first["end"] - 1)
    assert (first["owner"]["run"], first["owner"]["commands"], first["owner"]["per_second"]) == (
        "run-1",
        5,
        2.5,
    )
    assert first["state"]["aggregates"] == 1
    assert (second["owner"], second["state"], status["digest"]) == (None, None, None)


def test_a_shard_of_topics_that_had_the_same_name_before_is_not_shown(
    decided: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    claimed(connection, Topics("bank_account", prefix), Claim(5, "run-1", 0, 0, 1, "topic-id", 2))
    shard_with(tmp_path / ".cqrs/state" / f"{prefix}bank_account" / "0", "another-topic").close()
    status = decided("status", "bank_account", "-o", "json").document
    assert status["aggregates"]["bank_account"]["partitions"][0]["state"] is None


def claimed(connection: Connection, topics: Topics, claim: Claim) -> None:
    """Commit position 1 of partition 0 with this claim."""
    consumer = clients.consumer(connection, group=topics.group)
    place = TopicPartition(topics.commands, 0, 1, claim.metadata())
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def shard_with(path: Path, topic_id: str) -> LmdbStore:
    """A shard of that topic with one aggregate."""
    identity = Identity(
        cluster_id="c",
        topics={"commands": topic_id},
        partition=0,
        partitions=2,
        schema="",
        revision=1,
        window_ms=1,
    )
    store = open_shard(path, identity).store
    store.apply(
        WriteBatch(store.token(), store.positions(), store.positions(), {"a": StoredState(1, 0, 0, b"{}")})
    )
    return store


def test_status_of_all_leaves_out_what_has_no_topics(decided: Cqrs) -> None:
    said = decided("status", "-o", "json")
    assert (said.status, list(said.document["aggregates"])) == (0, ["bank_account"])
    assert said.document["missing"] == ["counter", "order", "sensor"]


def test_status_without_any_topics_ends_with_3(cqrs: Cqrs, connection: Connection, prefix: str) -> None:
    said = cqrs("status", "-o", "json", "-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert (said.status, said.out) == (3, "")
    assert json.loads(said.err)["error"]["message"] == f"topic {prefix}bank_account.commands does not exist"
