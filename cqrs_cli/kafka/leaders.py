"""Finding the leader of a partition, whoever that is now, to read from it or to ask it."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.clients import SOON, answered, kafka_error
from cqrs_cli.kafka.error_kinds import ErrorKind

#: Seconds until a question is asked for the second time, see `ask_leader`.
_AGAIN = 0.1

#: No leader yet: the broker has just started, another one takes over, or the partition is new.
_LEADERLESS = {ErrorKind.ELECTING, ErrorKind.MISSING}

_T = TypeVar("_T")


def assign(reader: Consumer, places: list[TopicPartition]) -> None:
    """Assign partitions, and look for their leaders at once.

    librdkafka (2.16) looks for them once a second, and finds them before only if they are assigned when the client
    first hears from a broker, within some milliseconds. A thread that waits for its turn in Python is later than that:
    beside six busy ones half of all readings took up to a second, and a third beside nobody, 20 ms after the client.
    """
    reader.assign(places)
    for topic in {place.topic for place in places}:
        _look(reader, topic, SOON)


def _look(reader: Consumer, topic: str, within: float) -> None:
    """Let a client learn who leads the partitions of a topic, if a broker answers."""
    with suppress(KafkaException):
        reader.list_topics(topic, timeout=within)


def ask_leader(reader: Consumer, topic: str, ask: Callable[[float], _T], within: float) -> _T:
    """The answer of a partition's leader, as soon as it has one; raises `KafkaException` after `within` seconds.

    `ask` is given its timeout, a second, but less for the first time: a client that is still connecting may ask nobody
    who leads the partition, and tries again after 0.7 s (librdkafka 2.16; of clients that are opened 16 at a time one
    in 40). Asked once more it tries at once. What it says the first time counts only if it is an answer: so soon it may
    say that all brokers are down.

    Later librdkafka sends the question to the leader that it knows, where it waits in vain if that broker was lost. So
    the client looks for another leader before it asks again.
    """
    deadline, timeout = time.monotonic() + within, min(SOON, within)

    def known() -> _T:
        with suppress(KafkaException):
            return ask(min(_AGAIN, timeout))
        while True:
            try:
                return ask(timeout)
            except KafkaException as error:
                is_over = time.monotonic() + timeout > deadline
                if is_over or kafka_error(error).code() != KafkaError._TIMED_OUT:
                    raise
            _look(reader, topic, timeout)

    return answered(known, _LEADERLESS, within)
