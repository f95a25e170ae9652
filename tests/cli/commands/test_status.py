"""`cqrs status` before and after an owner has decided."""

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.stored import StoredState
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import partition_for
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import Claim, Counts
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import WriteBatch
from tests.cli.conftest import Cqrs
from tests.support.transactional_topic import await_marker, begin_transaction

pytestmark = pytest.mark.kafka


def test_status_before_anything_is_decided(cqrs_on_decisions: Cqrs) -> None:
    status = cqrs_on_decisions("status", "bank_account", "-o", "json").document
    partitions = status["aggregates"]["bank_account"]["partitions"]
    assert status["lag"] == 7 == sum(partition["end"] for partition in partitions)
    assert [(p["position"], p["owner"], p["state"]) for p in partitions] == [(None, None, None)] * 2


def test_status_shows_claim_and_shard(
    cqrs_on_decisions: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    counts = Counts(accepted=4, rejected=1, first=1000, last=3000)
    commit_claim(
        connection, Topics("bank_account", prefix), Claim(5, "run-1", 0, 0, 1, "topic-id", 2, counts)
    )
    make_shard(tmp_path / ".cqrs/state" / f"{prefix}bank_account" / "0", "topic-id").close()
    status = cqrs_on_decisions("status", "bank_account", "--digest", "-o", "json").document["aggregates"][
        "bank_account"
    ]
    first, second = status["partitions"]
    assert (first["position"], first["lag"]) == (1, first["end"] - 1)
    assert (first["owner"]["run"], first["owner"]["commands"], first["owner"]["per_second"]) == (
        "run-1",
        5,
        0.0,
    )
    assert (status["commands"], status["per_second"]) == (5, 0.0)
    assert first["state"]["aggregates"] == 1
    assert (second["owner"], second["state"], status["digest"]) == (None, None, None)


def test_rate_of_busy_owners_is_measured(
    connection: Connection, cqrs_on_decisions: Cqrs, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics("bank_account", prefix)
    now = time.time_ns() // 1_000_000
    counts = Counts(accepted=1000, first=1000, last=now)
    claim = Claim(5, "run-1", 0, 0, 1, "topic-id", 2, counts)
    commit_claim(connection, topics, claim)
    later_claim = replace(claim, counts=counts.add_batch({"accepted": 50}, now, now))
    replace_sleep(monkeypatch, lambda _: commit_claim(connection, topics, later_claim))
    document = cqrs_on_decisions("status", "bank_account", "-o", "json").document
    first, second = document["aggregates"]["bank_account"]["partitions"]
    assert first["owner"]["per_second"] > 0 and second["owner"] is None
    assert document["per_second"] == first["owner"]["per_second"]


def test_status_of_states_in_memory(
    connection: Connection,
    cqrs_on_decisions: Cqrs,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An old shard is not taken for the state of an owner that keeps its states in memory."""
    commit_claim(connection, Topics("bank_account", prefix), Claim(5, "run-1", 0, 0, 1, "topic-id", 2))
    make_shard(tmp_path / ".cqrs/state" / f"{prefix}bank_account" / "0", "topic-id").close()
    monkeypatch.setenv("CQRS_STORE", "memory")
    document = cqrs_on_decisions("status", "bank_account", "-o", "json").document
    (first, _) = document["aggregates"]["bank_account"]["partitions"]
    assert (document["store"], first["state"]) == ("memory", None)
    lines = cqrs_on_decisions("status", "bank_account", "--digest").out.rstrip().splitlines()
    assert all(line.rstrip().endswith("in memory") for line in lines[1:4])
    assert lines[-1].endswith(
        "in the memory of their owners; compute them from the events: cqrs replay bank_account"
    )
    verification = cqrs_on_decisions("verify", "bank_account", "--state")
    assert verification.status == 3 and "leave out --state" in verification.err


def test_table_ends_with_totals(cqrs_on_decisions: Cqrs) -> None:
    total = cqrs_on_decisions("status", "bank_account").out.rstrip().splitlines()[-1]
    assert total.split() == ["total", "7", "none", "none", "here"]


def replace_sleep(monkeypatch: pytest.MonkeyPatch, pause: Callable[[float], None]) -> None:
    """Call `pause` instead of the command's `sleep`. Other threads sleep as usual."""
    sleep, main_thread = time.sleep, threading.get_ident()
    monkeypatch.setattr(
        time,
        "sleep",
        lambda seconds: pause(seconds) if threading.get_ident() == main_thread else sleep(seconds),
    )


def test_shards_of_earlier_topics_are_hidden(
    cqrs_on_decisions: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    commit_claim(connection, Topics("bank_account", prefix), Claim(5, "run-1", 0, 0, 1, "topic-id", 2))
    make_shard(tmp_path / ".cqrs/state" / f"{prefix}bank_account" / "0", "another-topic").close()
    status = cqrs_on_decisions("status", "bank_account", "-o", "json").document
    assert status["aggregates"]["bank_account"]["partitions"][0]["state"] is None


def test_status_omits_aggregates_without_topics(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("status", "-o", "json")
    assert (result.status, list(result.document["aggregates"])) == (0, ["bank_account"])
    assert result.document["missing"] == ["counter", "order", "payment", "reservation", "sensor"]


def test_status_without_topics_ends_with_3(cqrs: Cqrs, connection: Connection, prefix: str) -> None:
    result = cqrs("status", "-o", "json", "-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert (result.status, result.out) == (3, "")
    assert json.loads(result.err)["error"]["message"] == f"topic {prefix}bank_account.commands does not exist"


def test_status_names_hiding_transaction(
    cqrs_on_decisions: Cqrs, connection: Connection, prefix: str, request: pytest.FixtureRequest
) -> None:
    topic = f"{prefix}bank_account.commands"
    client = begin_transaction(connection, topic, [b"?"])
    assert hiding_transactions(cqrs_on_decisions("status", "-o", "json").document) == [
        None,
        None,
    ]  # too young to be reported
    request.getfixturevalue("no_young_transactions")
    first, second = hiding_transactions(cqrs_on_decisions("status", "-o", "json").document)
    assert (first["transactional_id"], second) == (f"{topic}.writer", None)
    assert re.fullmatch(r"20..-..-..T..:..:..\....Z", first["since"])
    assert f"abort --topic {topic} --partition 0 --start-offset {first['offset']}" in first["way_out"]
    output = cqrs_on_decisions("status").out
    offset = first["offset"]
    message = f"{topic} partition 0: the records from offset {offset} on are invisible"
    assert message in " ".join(output.split())
    assert "end the program that opened it, or kafka-transactions.sh" in " ".join(output.split())
    client.abort_transaction(10)
    await_marker(connection, topic)
    assert hiding_transactions(cqrs_on_decisions("status", "-o", "json").document) == [None, None]


def hiding_transactions(status: Any) -> list[Any]:
    return [partition["hidden_by"] for partition in status["aggregates"]["bank_account"]["partitions"]]


def test_killed_runs_are_silent(
    cqrs: Cqrs, cqrs_on_decisions: Cqrs, connection: Connection, prefix: str
) -> None:
    topics = Topics("bank_account", prefix)
    commit_claim(connection, topics, Claim(5, "run-1", 0, 0, 1, "topic-id", 2))
    consumer = clients.consumer(connection, group=topics.group)
    heartbeat = json.dumps({"run-1": time.time_ns() // 1_000_000 - 56_000})
    consumer.commit(offsets=[TopicPartition(topics.outcomes, 0, 0, heartbeat)], asynchronous=False)
    consumer.close()
    assert re.search(r"run-1 \(silent for [56]\d s\)", cqrs_on_decisions("status", "bank_account").out)
    account = next(name for name in "abcdef" if partition_for("murmur2", name.encode(), 2) == 0)
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    stderr = cqrs("send", "bank_account", account, "Close", "--wait", "--timeout", "2s", *broker_flags).err
    assert "run run-1, which owns bank_account, is silent for" in stderr
    assert "bank_account: its run run-1 (silent for" in cqrs_on_decisions("doctor").out


def commit_claim(connection: Connection, topics: Topics, claim: Claim) -> None:
    """Commit position 1 of partition 0 with this claim."""
    consumer = clients.consumer(connection, group=topics.group)
    offset = TopicPartition(topics.commands, 0, 1, claim.metadata())
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


def make_shard(path: Path, topic_id: str) -> LmdbStore:
    """Return a shard of this topic with one aggregate."""
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
