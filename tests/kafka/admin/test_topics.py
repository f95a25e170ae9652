"""Topics are created correctly and once, and incorrect topics are refused, on a real broker."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.configs import topic_configs
from cqrs_cli.kafka.admin.topics import Admin, check_topics, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import (
    ENVELOPE_OVERHEAD,
    KINDS,
    MAX_MESSAGE_BYTES,
    TIMESTAMP_LIMITS,
    TopicPlan,
    Topics,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def admin(connection: Connection) -> Iterator[Admin]:
    with Admin(connection) as client:
        yield client


@pytest.fixture
def topics(prefix: str) -> Topics:
    return Topics("bank", prefix)


def results(admin: Admin, topics: Topics, plan: TopicPlan) -> list[str]:
    return [created.result for created in ensure_topics(admin, topics, plan)]


def test_topics_are_created_once(admin: Admin, topics: Topics) -> None:
    assert results(admin, topics, TopicPlan()) == ["created"] * 5
    assert results(admin, topics, TopicPlan()) == ["kept"] * 5


def test_lagging_broker_is_asked_again(connection: Connection, topics: Topics) -> None:
    class Lagging(Admin):
        def describe(self, names: Collection[str]) -> dict[str, TopicInfo]:
            return super().describe(names) if next(is_answered, True) else {}

    is_answered = iter([True, False, False])
    with Lagging(connection) as admin:
        assert results(admin, topics, TopicPlan()) == ["created"] * 5
    assert next(is_answered, None) is None


def test_lagging_settings_are_awaited(connection: Connection, admin: Admin, topics: Topics) -> None:
    class Lagging(Admin):
        def _call(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            if request is topic_configs and not next(is_answered):
                return {}
            return super()._call(request, *arguments, **options)

    ensure_topics(admin, topics, TopicPlan())
    is_answered = iter([False, True])
    with Lagging(connection) as lagging_admin:
        assert list(lagging_admin.describe([topics.commands])) == [topics.commands]
    assert next(is_answered, None) is None


def test_a_dry_run_creates_nothing(admin: Admin, topics: Topics) -> None:
    reported = ensure_topics(admin, topics, TopicPlan(), dry_run=True)
    assert [topic.result for topic in reported] == ["missing"] * 5
    assert admin.describe([topics.name(kind) for kind in KINDS]) == {}


def test_created_topics_pass_the_checks(admin: Admin, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan(partitions=3))
    aggregate = check_topics(admin, topics)
    assert (aggregate.cluster_id, aggregate.partitions) == (admin.cluster_id(), 3)
    assert len(set(aggregate.ids.values())) == 5
    assert aggregate.max_bytes["commands"] == aggregate.max_bytes["events"] == MAX_MESSAGE_BYTES
    assert (
        aggregate.max_bytes["outcomes"]
        == aggregate.max_bytes["dead-letters"]
        == MAX_MESSAGE_BYTES + ENVELOPE_OVERHEAD
    )


def test_a_recreated_topic_has_another_id(admin: Admin, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan())
    old_id = check_topics(admin, topics).ids["commands"]
    admin._client.delete_topics([topics.commands])
    eventually(lambda: topics.commands not in admin.describe([topics.commands]))
    ensure_topics(admin, topics, TopicPlan())
    assert check_topics(admin, topics).ids["commands"] != old_id


def test_commands_get_broker_time(admin: Admin, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan())
    topic_infos = admin.describe([topics.commands, topics.events])
    assert topic_infos[topics.commands].configs["message.timestamp.type"] == "LogAppendTime"
    assert topic_infos[topics.commands].configs["retention.ms"] == str(7 * 86_400_000)
    assert topic_infos[topics.events].configs["retention.ms"] == "-1"
    assert topic_infos[topics.events].replication == 1
    for limit in TIMESTAMP_LIMITS:
        assert topic_infos[topics.events].configs[limit] == str(2**63 - 1)


def test_missing_topics_follow_existing_ones(admin: Admin, topics: Topics) -> None:
    admin.create(topics.commands, 2, 1, TopicPlan().configs("commands", 5_000_000))
    assert results(admin, topics, TopicPlan(partitions=4)) == ["kept", *["created"] * 4]
    aggregate = check_topics(admin, topics)
    assert aggregate.partitions == 2
    assert aggregate.max_bytes["outcomes"] == 5_000_000 + ENVELOPE_OVERHEAD


def test_partitions_are_not_added(admin: Admin, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan(partitions=4))
    with pytest.raises(ConfigurationError, match="have 4 partitions, not 8; raise the count"):
        ensure_topics(admin, topics, TopicPlan(partitions=8, is_partition_count_required=True))
    assert check_topics(admin, topics).partitions == 4


def test_wrong_topic_stops_creation(admin: Admin, topics: Topics) -> None:
    admin.create(topics.commands, 4, 1, {"message.timestamp.type": "CreateTime"})
    with pytest.raises(ConfigurationError, match=r"message\.timestamp\.type=CreateTime, needs LogAppendTime"):
        ensure_topics(admin, topics, TopicPlan())
    assert list(admin.describe([topics.commands, topics.events])) == [topics.commands]


def test_missing_topic_names_init(admin: Admin, topics: Topics) -> None:
    with pytest.raises(ConfigurationError) as error:
        check_topics(admin, topics)
    assert topics.events in error.value.message
    assert error.value.hint == "create what is missing: cqrs init bank"


def test_impossible_topic_name_is_error(admin: Admin) -> None:
    with pytest.raises(Exception, match="cannot be described"):
        admin.describe(["no blanks allowed"])


def test_open_transaction_names_its_owner(admin: Admin, connection: Connection, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan())
    producer = clients.producer(connection, transactional_id=topics.transactional_id(1))
    producer.init_transactions(20)
    readers.bounds(connection, topics.events, [1])  # waits until the new partition has a leader
    assert admin.all_open_transactions([(topics.events, 1)]) == []
    producer.begin_transaction()
    producer.produce(topics.events, b"held back", partition=1)
    assert producer.flush(20) == 0
    (transaction,) = admin.all_open_transactions([(topics.events, 1)])
    assert transaction.transactional_id == topics.transactional_id(1)
    assert str(transaction).startswith(
        f"open transaction {topics.transactional_id(1)} (producer id {transaction.producer_id})"
    )
    assert not transaction.hangs(now=transaction.began_at + 1000)
    assert transaction.hangs(now=transaction.began_at + 24 * 3_600_000)
    producer.abort_transaction(20)
    assert eventually(lambda: not admin.all_open_transactions([(topics.events, 1)]))


def test_short_transactions_do_not_hang(admin: Admin, connection: Connection, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan(partitions=1))
    producer = clients.producer(connection, transactional_id=topics.transactional_id(0), retry_backoff_ms=1)
    producer.init_transactions(20)
    stopping = threading.Event()
    writer = threading.Thread(target=commit_until, args=(stopping, producer, topics.events))
    writer.start()
    try:
        assert eventually(lambda: admin.all_open_transactions([(topics.events, 0)]))
        snapshots = [admin.all_open_transactions([(topics.events, 0)]) for _ in range(500)]
    finally:
        stopping.set()
        writer.join()
    assert not [
        transaction
        for snapshot in snapshots
        for transaction in snapshot
        if transaction.hangs(now=transaction.began_at + 1000)
    ]


def commit_until(stopping: threading.Event, producer: Producer, topic: str) -> None:
    while not stopping.is_set():
        producer.begin_transaction()
        producer.produce(topic, b"soon", partition=0)
        producer.flush(20)
        producer.commit_transaction(20)


def test_cluster_without_authorizer_has_no_acl_count(admin: Admin) -> None:
    assert admin.acl_count() is None


def test_cluster_is_described(admin: Admin) -> None:
    assert admin.broker_count() == 1
    assert admin.broker_version() >= (4, 1)
    assert admin.cluster_id()


@pytest.mark.parametrize("server", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_unreachable_broker_is_named_soon(server: str, capfd: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with pytest.raises(UnavailableError, match=server):
        Admin(Connection(server))
    assert time.monotonic() - started < 10
    assert capfd.readouterr() == ("", "")


def test_unresolved_host_is_named() -> None:
    with pytest.raises(UnavailableError, match="DNS does not know no-such-host"):
        Admin(Connection("no-such-host.invalid:9092"))


def test_silent_port_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()
        with pytest.raises(UnavailableError):
            Admin(Connection(f"127.0.0.1:{server.getsockname()[1]}"))
        assert time.monotonic() - started < 10


CONNECT_PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO)
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
try:
    Admin(Cluster(sys.argv[1], {"security.protocol": "SSL"}))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_broker_without_tls_is_recognised(connection: Connection) -> None:
    # A new process is used, because kafka-python does not close the socket of a failed handshake.
    process = subprocess.run(
        [sys.executable, "-c", CONNECT_PROGRAM, connection.bootstrap_server], capture_output=True, text=True
    )
    assert process.stdout.startswith("UnavailableError")
    assert "it does not support TLS" in process.stdout
    assert process.stderr == ""


def test_one_of_several_servers_is_enough(connection: Connection) -> None:
    with Admin(Connection(f"127.0.0.1:1,{connection.bootstrap_server}")) as admin:
        assert admin.broker_count() == 1
