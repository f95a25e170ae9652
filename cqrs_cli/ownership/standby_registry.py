"""The standby registry: each standby run registers itself about every two seconds, so that other tools can name it.

The registry is the metadata of an offset in the owners' group, like a heartbeat, at a partition of its own. If two runs
register at once, one registration may be lost until its run registers again. A registration expires after ten seconds.
"""

import msgspec
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.offsets import committed_offsets

#: The partition of a claim slot's registry topic whose offset carries the registry. Nothing else commits this offset.
ROLL_PARTITION = 0

#: Milliseconds for which a registration is valid: the run registers five times in this period.
PRESENT_FOR = 10_000

#: Most registrations: the metadata of an offset has at most 4 KiB.
MOST_NAMES = 20


class Signature(Struct, frozen=True, array_like=True):
    """The registration of a standby run, and its time (ms, by the run's own clock)."""

    run: str
    at: int


def present(roll: str, now: int) -> list[Signature]:
    """Return the valid registrations in the registry; an empty list for any other text."""
    try:
        signatures = msgspec.json.decode(roll.encode(), type=list[Signature])
    except (ValueError, RecursionError):
        return []
    return [one for one in signatures if abs(now - one.at) < PRESENT_FOR]


def signed(roll: str, run: str, now: int) -> str:
    """Return the registry with the run's registration at the time `now` as its last entry."""
    others = [one for one in present(roll, now) if one.run != run]
    return msgspec.json.encode([*others[1 - MOST_NAMES :], Signature(run, now)]).decode()


def read_roll(client: Consumer, topic: str, timeout: float = REQUEST_TIMEOUT) -> str:
    """Return the registry of the client's group; raises `KafkaException`."""
    return committed_offsets(client, topic, [ROLL_PARTITION], timeout)[ROLL_PARTITION].metadata


def enter_roll(client: Consumer, topic: str, run: str, now: int, timeout: float) -> None:
    """Register the run in the client's group; raises `KafkaException`."""
    text = signed(read_roll(client, topic, timeout), run, now)
    client.commit(offsets=[TopicPartition(topic, ROLL_PARTITION, 0, text)], asynchronous=True)
