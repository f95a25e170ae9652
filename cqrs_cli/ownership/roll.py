"""The roll of the runs that stand by, so that others can name them: each signs it every two seconds.

It rides beside an offset of the owners' group, as the beats do, at a place of its own. If two sign at once, one may be
left out until it signs again; who has not signed for long is gone.
"""

import msgspec
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.offsets import committed

#: The partition of a seat's topic of the roll at which it is committed: nobody else commits an offset of it.
ROLL_PARTITION = 0

#: Milliseconds for which a signature counts: the run signs again five times meanwhile.
PRESENT_FOR = 10_000

#: The most names: what rides beside an offset has at most 4 KiB.
MOST_NAMES = 20


class Signature(Struct, frozen=True, array_like=True):
    """A run that stands by, and when it signed (ms, by its own clock)."""

    run: str
    at: int


def present(roll: str, now: int) -> list[Signature]:
    """Those on the roll who have signed lately; nobody for any other text."""
    try:
        signatures = msgspec.json.decode(roll.encode(), type=list[Signature])
    except (ValueError, RecursionError):
        return []
    return [one for one in signatures if abs(now - one.at) < PRESENT_FOR]


def signed(roll: str, run: str, now: int) -> str:
    """The roll with the run's signature of now, last."""
    others = [one for one in present(roll, now) if one.run != run]
    return msgspec.json.encode([*others[1 - MOST_NAMES :], Signature(run, now)]).decode()


def read_roll(client: Consumer, topic: str, timeout: float = REQUEST_TIMEOUT) -> str:
    """The roll of the client's group; raises `KafkaException`."""
    return committed(client, topic, [ROLL_PARTITION], timeout)[ROLL_PARTITION].metadata


def enter_roll(client: Consumer, topic: str, run: str, now: int, timeout: float) -> None:
    """Sign the roll of the client's group; raises `KafkaException`."""
    text = signed(read_roll(client, topic, timeout), run, now)
    client.commit(offsets=[TopicPartition(topic, ROLL_PARTITION, 0, text)], asynchronous=True)
