"""Changes that no owner makes: records appended by a foreign program, and rewritten topics."""

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topic_identity import topic_ids
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.harness import TopicHarness
from tests.support.topic_loss import recreate_topics


def append_records(harness: TopicHarness, kind: Kind, *records: Record, partition: int = 0) -> list[int]:
    """Write records at the end of a topic, and return their offsets."""
    offsets: list[int] = []
    producer = clients.producer(harness.connection)
    for record in records:
        producer.produce(
            harness.topics.name(kind),
            record.value,
            record.key,
            partition,
            lambda error, message: offsets.append(-1 if error else message.offset() or 0),
            timestamp=record.timestamp,
            headers=record.headers,  # type: ignore[arg-type]  # the stubs want a list of a wider type
        )
    assert producer.flush(30) == 0
    assert -1 not in offsets
    return offsets


def rewrite_topic(
    harness: TopicHarness, kind: Kind, change: Callable[[list[Record]], object], partition: int = 0
) -> None:
    """Rewrite a topic with a change in one of its partitions. Every offset may change. The claims name the new topic,
    so that only the change is a violation.
    """
    logs = [harness.records(kind, number) for number in range(harness.partitions)]
    change(logs[partition])
    recreate_topics(harness, kind)
    for number, records in enumerate(logs):
        append_records(harness, kind, *records, partition=number)
    ids = topic_ids(harness.connection, [harness.topics.events, harness.topics.outcomes])
    claim_topics(harness, other_ids=(ids[harness.topics.events], ids[harness.topics.outcomes]))


def claim_topics(harness: TopicHarness, **claim_members: Any) -> None:
    """Commit the claims of all partitions again with other members."""
    with closing(clients.consumer(harness.connection, group=harness.topics.group)) as group:
        for number in range(harness.partitions):
            offset, claim = harness.position_and_claim(number)
            if claim is not None and offset is not None:
                metadata = replace(claim, **claim_members).metadata()
                commit = TopicPartition(harness.topics.commands, number, offset, metadata)
                group.commit(offsets=[commit], asynchronous=False)


def changed_record(record: Record, data: dict[str, Any] | None = None, **members: Any) -> Record:
    """Return the record with other members in its document; None removes a member. `data` are members of its data."""
    document = json.loads(record.value or b"") | members
    document = {name: member for name, member in document.items() if member is not None}
    document["data"] = document["data"] | (data or {})
    return Record(record.offset, record.timestamp, record.key, json.dumps(document).encode(), record.headers)
