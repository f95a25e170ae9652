"""Waiting for the outcomes of commands that were just sent, matched by partition and offset of the delivery report."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from cqrs_cli.client.producer import CommandProducer, Failed
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds without an outcome before it is worth asking if there is an owner: most have theirs in 0.05 s.
QUIET = 1.0


class ReceivedOutcome(NamedTuple):
    """An outcome of a command that we sent: decoded, its bytes, and the number that `OutcomeWaiter.send` returned."""

    read: OutcomeEnvelope
    value: bytes
    number: int = 0


class OutcomeWaiter:
    """Sends commands and reads their outcomes, read_committed. Use as a context manager.

    Reading a partition starts at its end *before* the first command is sent there: an outcome cannot be missed. An
    outcome may be read before the delivery report that says it is ours, so both are kept until they meet.
    """

    def __init__(
        self, connection: Connection, sender: CommandProducer, quiet: Callable[[], None] | None = None
    ) -> None:
        """`quiet` is called once, when `rest` has waited for `QUIET` seconds and no outcome came."""
        self._connection = connection
        self._sender = sender
        self._reader: Consumer = clients.consumer(connection)
        failure = partial(readers.read_failure, connection)
        self._follower = Follower(self._reader, failure, unreachable=lambda: None)
        self._watched: set[tuple[str, int]] = set()
        self._open: dict[int, str] = {}  # number of the command → its id
        self._sent = 0
        self._waiting: dict[tuple[str, int, int], int] = {}
        self._early: dict[tuple[str, int, int], ReceivedOutcome] = {}
        self._met: list[ReceivedOutcome] = []
        self._quiet = quiet

    def __enter__(self) -> "OutcomeWaiter":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._reader.close()

    @property
    def outstanding(self) -> list[str]:
        """The ids of the commands that have no outcome yet, in the order they were sent."""
        return list(self._open.values())

    @property
    def places(self) -> set[tuple[str, int]]:
        """The outcomes topics and partitions in which the outcomes that are still to come will be."""
        return {(topic, partition) for topic, partition, _ in self._waiting}

    def send(
        self, topics: Topics, key: bytes, value: bytes, command_id: str, failed: Failed | None = None
    ) -> int:
        """As `CommandProducer.send`, and remember to wait for the outcome; the command's number.

        One that was not sent is not waited for: until its place was known, the outcomes of all others would be kept.
        """
        self._watch(topics.outcomes, self._sender.partition_of(topics.commands, key))
        self._sent = number = self._sent + 1
        self._open[number] = command_id

        def reported(partition: int, offset: int) -> None:
            place = topics.outcomes, partition, offset
            early = self._early.pop(place, None)
            if number not in self._open:
                pass  # forgotten meanwhile
            elif early is None:
                self._waiting[place] = number
            else:
                self._met.append(early._replace(number=number))
                del self._open[number]
            if not self._is_unreported():
                self._early.clear()

        try:
            self._sender.send(topics.commands, key, value, reported, failed)
        except CqrsError:
            self.forget(number)
            raise
        return number

    def forget(self, number: int) -> None:
        """Wait no longer for the outcome of the command with this number."""
        self._open.pop(number, None)
        self._waiting = {place: other for place, other in self._waiting.items() if other != number}

    def arrived(self, timeout: float = 0.0) -> list[ReceivedOutcome]:
        """The outcomes of our commands that have arrived; waits at most `timeout` seconds for the first record."""
        for message in self._follower.poll(1000, timeout):
            self._meet(message)
        met, self._met = self._met, []
        return met

    def rest(self, patience: float) -> Iterator[list[ReceivedOutcome]]:
        """The outcomes still to come, as they arrive; ends early when none arrived for `patience` seconds."""
        self._sender.flush()
        deadline = time.monotonic() + patience
        while self._open or self._met:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            came = self.arrived(min(left, 0.2))
            if came:
                yield came
                deadline = time.monotonic() + patience
            elif self._quiet is not None and patience - left > min(QUIET, patience / 2):
                self._quiet()
                self._quiet = None

    def _watch(self, topic: str, partition: int) -> None:
        if (topic, partition) in self._watched:
            return
        try:
            _, end = readers.watermarks(self._reader, topic, partition)
            self._reader.incremental_assign([TopicPartition(topic, partition, end)])
        except readers.MissingError:
            # Raises what it is: a missing topic, or one that we may not see.
            readers.partitions(self._connection, topic)
            raise
        except KafkaException as error:
            raise readers.read_failure(
                self._connection, topic, partition, clients.kafka_error(error)
            ) from error
        self._watched.add((topic, partition))

    def _meet(self, message: Message) -> None:
        value = message.value() or b""
        try:
            read = read_outcome(value)
        except ValueError:
            return  # not an outcome, so not an answer to us
        place = message.topic() or "", read.data.partition, read.data.offset
        if (number := self._waiting.pop(place, None)) is not None:
            self._met.append(ReceivedOutcome(read, value, number))
            del self._open[number]
        elif self._is_unreported():
            self._early[place] = ReceivedOutcome(read, value)

    def _is_unreported(self) -> bool:
        """True while the place of a sent command is not known yet."""
        return len(self._open) > len(self._waiting)


def is_refused(outcome: OutcomeEnvelope) -> bool:
    """True unless the command was accepted, unchanged or deferred, or is a duplicate of one that was."""
    verdict = outcome.data
    status = verdict.original.status if verdict.status == "duplicate" and verdict.original else verdict.status
    return status not in ("accepted", "unchanged", "deferred")
