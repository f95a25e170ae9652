"""Looks up the leaders of partitions at once, because librdkafka alone may need up to a second.

`assign` starts a read; `ask_leader` sends a request to the leader.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.clients import FIRST_ANSWER_TIMEOUT, kafka_error, retry_while
from cqrs_cli.kafka.error_kinds import ErrorKind

#: Timeout in seconds of the first request in `ask_leader`.
_FIRST_CALL_TIMEOUT = 0.1

#: Errors of a partition without a leader: the partition is new, or its broker has just started or has failed.
_LEADERLESS = {ErrorKind.NO_LEADER, ErrorKind.UNKNOWN_PARTITION}

#: Errors of a request whose timeout has passed. librdkafka reports `_ALL_BROKERS_DOWN` if it has no connection then.
_TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}

_T = TypeVar("_T")


def assign(reader: Consumer, positions: list[TopicPartition]) -> None:
    """Assign partitions, and look up their leaders at once.

    librdkafka (2.16) looks up the leaders of assigned partitions once a second. It looks them up earlier only if the
    partitions are assigned before the client's first answer from a broker, which arrives within milliseconds. In a
    process with busy threads, the assignment often comes later: with six busy threads, half of all reads took up to a
    second.
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

    `request(timeout)` sends the request to the leader. The first call has a timeout of 0.1 s, later calls of a second:
    the first lookup of the leader may get lost while the client is connecting (in 1 of 40 clients if 16 are opened at
    once). librdkafka (2.16) repeats a lost lookup after 0.7 s, but at once if `request` is called again. An error of
    the first call is ignored, because it may only mean that the client is not connected yet.

    If the known leader was lost, the request waits for its timeout. So the leaders are refreshed before each retry.
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
                if is_late or kafka_error(error).code() not in _TIMED_OUT:
                    raise
            _refresh_leaders(reader, topic, answer_timeout)

    return retry_while(request_with_fresh_leaders, _LEADERLESS, timeout)
