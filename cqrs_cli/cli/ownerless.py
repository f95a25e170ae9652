"""The partitions that nobody decides, as far as their committed claims tell."""

from collections.abc import Iterable

from confluent_kafka import KafkaException

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim

#: Seconds for the answer. It is asked for on the way, by a sender who may not be allowed to look at the group.
TIMEOUT = 2.0


def ownerless(connection: Connection, topics: Topics, partitions: Iterable[int]) -> list[int]:
    """Those of these partitions that no run has claimed, or whose last run stopped cleanly; none if it is not known.

    A run that was killed leaves a claim that looks alive.
    """
    client = consumer(connection, group=topics.group, isolation="read_uncommitted")
    try:
        found = committed(client, topics.commands, partitions, TIMEOUT)
    except KafkaException:
        return []
    finally:
        client.close()
    claims = {partition: parse_claim(one.metadata) for partition, one in found.items()}
    return sorted(
        partition for partition, claim in claims.items() if claim is None or claim.attempt == TERMINAL
    )
