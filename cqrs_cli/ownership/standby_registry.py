"""The standby registry: each standby run registers itself about every two seconds, so that other tools can name it.

Like a heartbeat, the registry is the metadata of a committed offset in the owners' group. The topic of this offset
(`ClaimSlot.registry_topic`) has neither claims nor heartbeats. If two runs register at once, one registration may be
lost until its run registers again. A registration expires after ten seconds.
"""

import msgspec
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.offsets import committed_offsets

#: The partition of a claim slot's registry topic whose offset carries the registry. Nothing else commits this offset.
REGISTRY_PARTITION = 0

#: Milliseconds for which a registration is valid: the run registers five times in this period.
REGISTRATION_TTL = 10_000

#: The maximal number of registrations, because the metadata of an offset has at most 4 KiB.
MAX_REGISTRATIONS = 20


class Registration(Struct, frozen=True, array_like=True):
    """The registration of a standby run, and its time (ms, by the run's own clock)."""

    run: str
    registered_at: int


def valid_registrations(registry: str, now: int) -> list[Registration]:
    """Return the valid registrations in the registry; an empty list for any other text."""
    try:
        registrations = msgspec.json.decode(registry.encode(), type=list[Registration])
    except (ValueError, RecursionError):
        return []
    return [
        registration
        for registration in registrations
        if abs(now - registration.registered_at) < REGISTRATION_TTL
    ]


def with_registration(registry: str, run: str, now: int) -> str:
    """Return the registry with the run's registration at the time `now` as its last entry."""
    other_registrations = [
        registration for registration in valid_registrations(registry, now) if registration.run != run
    ]
    return msgspec.json.encode(
        [*other_registrations[1 - MAX_REGISTRATIONS :], Registration(run, now)]
    ).decode()


def read_registry(client: Consumer, topic: str, timeout: float = REQUEST_TIMEOUT) -> str:
    """Return the registry of the client's group, a JSON text; raises `KafkaException`."""
    return committed_offsets(client, topic, [REGISTRY_PARTITION], timeout)[REGISTRY_PARTITION].metadata


def register_standby(client: Consumer, topic: str, run: str, now: int, timeout: float) -> None:
    """Register the run in the client's group; raises `KafkaException`."""
    registry = with_registration(read_registry(client, topic, timeout), run, now)
    client.commit(offsets=[TopicPartition(topic, REGISTRY_PARTITION, 0, registry)], asynchronous=True)
