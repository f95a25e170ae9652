"""Finds the current leader of a partition, to read from it or to send it a request."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.clients import FIRST_ANSWER_TIMEOUT, kafka_error, retry_while
from cqrs_cli.kafka.error_kinds import ErrorKind

#: Timeout in seconds of the first request, see `ask_leader`.
_FIRST_CALL_TIMEOUT = 0.1

#: Errors of a partition without a leader: its broker has just started, another broker takes over, or it is new.
_LEADERLESS = {ErrorKind.NO_LEADER, ErrorKind.UNKNOWN_PARTITION}

_T = TypeVar("_T")


def assign(reader: Consumer, positions: list[TopicPartition]) -> None:
    """Assign partitions, and look up their leaders at once.

    librdkafka (2.16) looks up the leaders of assigned partitions once a second. It looks them up earlier only if the
    partitions are assigned before the client's first answer from a broker, which arrives within milliseconds. A thread
    that waits for Python's interpreter lock assigns too late: with six busy threads, half of all reads took up to a
    second. Without other threads, a third of the reads took up to a second if the partitions were assigned 20 ms after
    the client was created.
    """
    reader.assign(positions)
    for topic in {position.topic for position in positions}:
        _refresh_leaders(reader, topic, FIRST_ANSWER_TIMEOUT)


def _refresh_leaders(reader: Consumer, topic: str, timeout: float) -> None:
    """Refresh a client's metadata of a topic, with the leaders of its partitions, if a broker answers."""
    with suppress(KafkaException):
        reader.list_topics(topic, timeout=timeout)


def ask_leader(reader: Consumer, topic: str, request: Callable[[float], _T], timeout: float) -> _T:
    """Return the answer of a partition's leader; raises `KafkaException` if there is no leader within `timeout`
    seconds.

    `request` is called with a timeout: 0.1 s for the first call, then a second. If a client is still connecting, its
    first lookup of the leader may get lost. The client repeats a lost lookup after 0.7 s (librdkafka 2.16; 1 in 40
    clients if 16 are opened at once), or at once if `request` is called again. An error of the first call is ignored,
    because it may only mean that no connection is up yet.

    If librdkafka knows a leader, it sends the request to this broker, and waits for the timeout if the broker was lost.
    So the leaders are refreshed before each retry.
    """
    deadline, answer_timeout = time.monotonic() + timeout, min(FIRST_ANSWER_TIMEOUT, timeout)

    def request_with_fresh_leaders() -> _T:
        with suppress(KafkaException):
            return request(min(_FIRST_CALL_TIMEOUT, answer_timeout))
        while True:
            try:
                return request(answer_timeout)
            except KafkaException as error:
                is_late = time.monotonic() + answer_timeout > deadline
                if is_late or kafka_error(error).code() != KafkaError._TIMED_OUT:
                    raise
            _refresh_leaders(reader, topic, answer_timeout)

    return retry_while(request_with_fresh_leaders, _LEADERLESS, timeout)
