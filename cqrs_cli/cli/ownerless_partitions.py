"""Finds partitions without an owner, from their committed claims and the heartbeats of their runs."""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed_offsets
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim
from cqrs_cli.ownership.heartbeats import SilenceReader, read_heartbeats

#: Timeout in seconds of a request to the broker. A request may fail: the caller is a sender, and may lack the ACL
#: Describe for the group.
TIMEOUT = 2.0


class OwnerlessPartitions(NamedTuple):
    """The partitions without an owner, and the runs that may be dead."""

    #: Partitions that no run has claimed, or whose last run stopped cleanly.
    partitions: list[int]
    #: Each run that owns a partition but sends no heartbeats → seconds since its last heartbeat.
    silent_runs: dict[str, float]


def ownerless_partitions(
    connection: Connection, topics: Topics, partitions: Iterable[int]
) -> OwnerlessPartitions:
    """Return the given partitions without an owner, and the silent runs; both are empty if a request to Kafka fails."""
    client = consumer(connection, group=topics.group, isolation="read_uncommitted")
    try:
        offsets = committed_offsets(client, topics.commands, partitions, TIMEOUT)
        claims = {partition: parse_claim(offset.metadata) for partition, offset in offsets.items()}
        owning_runs = {claim.run for claim in claims.values() if claim and claim.attempt != TERMINAL}
        silent_runs = SilenceReader().silent_runs(
            lambda: read_heartbeats(client, topics.outcomes, TIMEOUT), owning_runs
        )
    except KafkaException:
        return OwnerlessPartitions([], {})
    finally:
        client.close()
    unowned_partitions = [
        partition for partition, claim in claims.items() if claim is None or claim.attempt == TERMINAL
    ]
    return OwnerlessPartitions(sorted(unowned_partitions), silent_runs)
