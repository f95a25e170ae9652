"""Changes that no owner makes: records appended by a foreign program, and rewritten topics."""

import json
from collections.abc import Callable
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import clients
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
    """Rewrite a topic with a change in one of its partitions. Every offset may change."""
    logs = [harness.records(kind, number) for number in range(harness.partitions)]
    change(logs[partition])
    recreate_topics(harness, kind)
    for number, records in enumerate(logs):
        append_records(harness, kind, *records, partition=number)


def changed_record(record: Record, data: dict[str, Any] | None = None, **members: Any) -> Record:
    """Return the record with other members in its document; None removes a member. `data` are members of its data."""
    document = json.loads(record.value or b"") | members
    document = {name: member for name, member in document.items() if member is not None}
    document["data"] = document["data"] | (data or {})
    return Record(record.offset, record.timestamp, record.key, json.dumps(document).encode(), record.headers)
