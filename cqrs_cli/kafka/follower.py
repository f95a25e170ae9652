"""Polls a consumer, and handles the errors that librdkafka returns in place of messages, for all followers of a log."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

from cqrs_cli.kafka.clients import is_group_denied, is_unreachable
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind

#: (topic, partition, librdkafka's error in place of a message) → the error to raise.
MakeError = Callable[[str, int, KafkaError], Exception]

#: Called when no broker answers.
OnUnreachable = Callable[[], None]


class Follower:
    """Polls a consumer with assigned partitions. `poll` returns the messages that have arrived.

    | in place of a message | reaction |
    |---|---|
    | the end of a partition | sets the partition's offset in `ends` |
    | no broker answers | calls `on_unreachable` once, until a message arrives; raises an error if it is None |
    | the ACL for the group is missing | ignores it; raises an error if `own_group` is True |
    | another error | raises an error |

    `make_error` returns the error to raise. `own_group`: the reader uses its group, so it needs the ACL.
    """

    def __init__(
        self,
        reader: Consumer,
        make_error: MakeError,
        on_unreachable: OnUnreachable | None = None,
        *,
        own_group: bool = False,
    ) -> None:
        self.ends: dict[tuple[str, int], int] = {}  # (topic, partition) → the end that was last reached
        self._reader, self._make_error, self._on_unreachable = reader, make_error, on_unreachable
        self._own_group = own_group
        #: The error if no broker answers; None after a message.
        self.unreachable_error: KafkaError | None = None

    # Any, because the stubs allow None for values that a delivered message always has.
    def poll(self, max_messages: int = 10_000, timeout: float = 0.2, collect_at: float = 0.0) -> list[Any]:
        """Return up to `max_messages` messages. Waits up to `timeout` seconds for the first message.

        `Consumer.consume` would wait for `max_messages` messages. `collect_at`: the earliest time (monotonic seconds)
        at which the messages after the first are collected, so that a call returns more messages.
        """
        first_message = self._reader.poll(timeout)
        if self._on_unreachable is None and self.unreachable_error is not None:
            raise self._make_error("?", 0, self.unreachable_error)
        if first_message is None:
            return []
        if (pause := collect_at - time.monotonic()) > 0:
            time.sleep(pause)
        new_messages = (
            [first_message, *self._reader.consume(max_messages - 1, 0)]
            if max_messages > 1
            else [first_message]
        )
        if any(map(Message.error, new_messages)):
            new_messages = self._without_errors(new_messages)
        if new_messages:
            self.unreachable_error = None
        return new_messages

    def handle_client_error(self, error: KafkaError) -> None:
        """Handle an error of the client that comes without a message. A single unreachable broker is ignored, since its
        partitions get another leader.
        """
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._report_unreachable(error)

    def _report_unreachable(self, error: KafkaError) -> None:
        is_reported, self.unreachable_error = self.unreachable_error is not None, error
        if not is_reported and self._on_unreachable is not None:
            self._on_unreachable()

    def _without_errors(self, new_messages: list[Message]) -> list[Message]:
        """Return the messages that are records. Handle the errors among them, as the table of the class describes."""
        messages = []
        for message in new_messages:
            error = message.error()
            if error is None:
                messages.append(message)
                continue
            topic, partition = message.topic() or "?", message.partition() or 0
            if error_kind(error) is ErrorKind.PARTITION_END:
                self.ends[topic, partition] = message.offset() or 0
            elif self._on_unreachable is not None and is_unreachable(error):
                self._report_unreachable(error)
            elif self._own_group or not is_group_denied(error):
                raise self._make_error(topic, partition, error)
        return messages
