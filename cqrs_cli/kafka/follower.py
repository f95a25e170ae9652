"""Polls a consumer, and handles the errors that librdkafka returns in place of messages: for all who follow a log."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

from cqrs_cli.kafka.clients import is_about_group, is_unreachable
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind

#: Returns the error to raise for an error in place of a message: topic, partition, and librdkafka's error.
Failure = Callable[[str, int, KafkaError], Exception]

#: Called when no broker answers.
Unreachable = Callable[[], None]


class Follower:
    """A consumer with assigned partitions: `poll` returns the messages that have arrived.

    | in place of a message | reaction |
    |---|---|
    | the end of a partition | `ends` gets its offset |
    | no broker answers | `unreachable` is called, once until a message arrives; without it, raises `failure` |
    | the ACL for the group is missing | none, since a reader needs no group; with `own_group`, raises `failure` |
    | another error | raises the error that `failure` returns |
    """

    def __init__(
        self,
        reader: Consumer,
        failure: Failure,
        unreachable: Unreachable | None = None,
        *,
        own_group: bool = False,
    ) -> None:
        self.ends: dict[tuple[str, int], int] = {}  # the end of each partition when it was last reached
        self._reader, self._failure, self._unreachable = reader, failure, unreachable
        self._own_group = own_group
        self._silent = False
        self._absent: KafkaError | None = None  # no broker answers, and there is no `unreachable`

    # Any: the stubs allow None where a delivered message has none.
    def poll(self, most: int = 10_000, patience: float = 0.2, rest_at: float = 0.0) -> list[Any]:
        """Return up to `most` messages. Waits up to `patience` seconds for the first; `consume` would wait for all.

        Takes the other messages at `rest_at` (monotonic seconds) or later, so that more have arrived.
        """
        first = self._reader.poll(patience)
        if self._absent is not None:
            raise self._failure("?", 0, self._absent)
        if first is None:
            return []
        if (early := rest_at - time.monotonic()) > 0:
            time.sleep(early)
        arrived = [first, *self._reader.consume(most - 1, 0)] if most > 1 else [first]
        if any(map(Message.error, arrived)):
            arrived = self._sorted(arrived)
        if arrived:
            self._silent = False
        return arrived

    def hear(self, error: KafkaError) -> None:
        """Handle an error of the client that comes without a message. A single unreachable broker is ignored, since its
        partitions get another leader.
        """
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            if self._unreachable is None:
                self._absent = error
            self._note_silence()

    def _note_silence(self) -> None:
        if not self._silent and self._unreachable is not None:
            self._unreachable()
        self._silent = True

    def _sorted(self, arrived: list[Message]) -> list[Message]:
        messages = []
        for message in arrived:
            error = message.error()
            if error is None:
                messages.append(message)
                continue
            topic, partition = message.topic() or "?", message.partition() or 0
            if error_kind(error) is ErrorKind.END:
                self.ends[topic, partition] = message.offset() or 0
            elif self._unreachable is not None and is_unreachable(error):
                self._note_silence()
            elif self._own_group or not is_about_group(error):
                raise self._failure(topic, partition, error)
        return messages
