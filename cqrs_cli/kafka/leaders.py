"""Questions to the leader of a partition, whoever that is now."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException

from cqrs_cli.kafka.clients import answered, kafka_error
from cqrs_cli.kafka.error_kinds import ErrorKind

#: No leader yet: the broker has just started, another one takes over, or the partition is new.
_LEADERLESS = {ErrorKind.ELECTING, ErrorKind.MISSING}

_T = TypeVar("_T")


def ask_leader(reader: Consumer, topic: str, ask: Callable[[float], _T], within: float, each: float) -> _T:
    """The answer of a partition's leader, as soon as it has one; raises `KafkaException` after `within` seconds.

    `ask` is given its timeout, `each`. librdkafka sends the question to the leader that it knows, where it waits in
    vain if that broker was lost. So the client looks for another leader before it asks again.
    """
    deadline, timeout = time.monotonic() + within, min(each, within)

    def known() -> _T:
        while True:
            try:
                return ask(timeout)
            except KafkaException as error:
                is_over = time.monotonic() + timeout > deadline
                if is_over or kafka_error(error).code() != KafkaError._TIMED_OUT:
                    raise
            with suppress(KafkaException):
                reader.list_topics(topic, timeout=timeout)

    return answered(known, _LEADERLESS, within)
