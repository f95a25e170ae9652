"""The partitions without an owner, according to their committed claims."""

from collections.abc import Iterable

from confluent_kafka import KafkaException

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed_offsets
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim

#: Timeout in seconds for the broker's answer. The caller is a sender, who may not be allowed to describe the group.
TIMEOUT = 2.0


def ownerless_partitions(connection: Connection, topics: Topics, partitions: Iterable[int]) -> list[int]:
    """Return the partitions that no run has claimed, or whose last run stopped cleanly; an empty list if this is
    unknown.

    A run that was killed leaves an open claim, so its partitions count as owned.
    """
    client = consumer(connection, group=topics.group, isolation="read_uncommitted")
    try:
        offsets = committed_offsets(client, topics.commands, partitions, TIMEOUT)
    except KafkaException:
        return []
    finally:
        client.close()
    claims = {partition: parse_claim(offset.metadata) for partition, offset in offsets.items()}
    return sorted(
        partition for partition, claim in claims.items() if claim is None or claim.attempt == TERMINAL
    )
