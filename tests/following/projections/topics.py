"""Events on a real broker, as owners write them: in transactions, some of which are aborted."""

import random
from collections.abc import Iterable

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.settings.settings import Settings
from tests.following.projections.projector_harness import event_partition, expected_tables, random_log


def create_order_topics(connection: Connection, prefix: str, partitions: int = 4) -> Topics:
    """Create the topics of the aggregate `order`."""
    topics = Topics("order", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=partitions))
    return topics


def write_events(
    connection: Connection, topic: str, partition: int, log: Iterable[Record], seed: int = 0
) -> None:
    """Write the records in small transactions. Before some of them, a transaction with the same records is aborted."""
    generator = random.Random(seed)
    producer = clients.producer(connection, transactional_id=f"test-{topic}-{partition}")
    producer.init_transactions(30)
    remaining = list(log)
    while remaining:
        size = generator.randrange(1, 200)
        records, remaining = remaining[:size], remaining[size:]
        for commit in generator.choice([[True], [False, True]]):
            producer.begin_transaction()
            for record in records:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    timestamp=record.timestamp,
                    headers=HEADERS,  # type: ignore[arg-type]
                )
            assert producer.flush(30) == 0  # the broker can abort only records that it has received
            (producer.commit_transaction if commit else producer.abort_transaction)(30)


def write_logs(
    connection: Connection, settings: Settings, prefix: str, count: int, seed: int = 1
) -> dict[int, list[Record]]:
    topics = create_order_topics(connection, prefix)
    logs = {partition: random_log(partition, count, seed=seed) for partition in range(4)}
    for partition, log in logs.items():
        write_events(connection, topics.events, partition, log)
    return logs


def expected_contents(logs: dict[int, list[Record]]) -> object:
    return expected_tables({event_partition(partition): log for partition, log in logs.items()})
