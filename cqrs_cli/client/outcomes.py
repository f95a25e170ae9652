"""Waiting for the outcomes of commands that were just sent, matched by partition and offset of the delivery report."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from cqrs_cli.client.producer import CommandProducer, Failed
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.topics.topics import Topics

#: Milliseconds by which the clocks of two brokers may differ: an outcome carries its command's time.
_SKEW = 10_000

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

    A command whose key has moved, since the client sends by an older number of partitions, is waited for where it has
    gone, by its id.
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
        self._moved: dict[tuple[str, int, str], list[int]] = {}  # topic, partition and id → the numbers
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
        waiting: list[tuple[str, int, object]] = [*self._waiting, *self._moved]
        return {(topic, partition) for topic, partition, _ in waiting}

    def send(
        self, topics: Topics, key: bytes, value: bytes, command_id: str, failed: Failed | None = None
    ) -> int:
        """As `CommandProducer.send`, and remember to wait for the outcome; the command's number."""
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
                self._reach(topics.outcomes, early._replace(number=number))
            if not self._is_unreported():
                self._early.clear()

        self._sender.send(topics.commands, key, value, reported, failed)
        return number

    def forget(self, number: int) -> None:
        """Wait no longer for the outcome of the command with this number."""
        self._open.pop(number, None)
        self._waiting = {place: other for place, other in self._waiting.items() if other != number}
        for numbers in self._moved.values():
            if number in numbers:
                numbers.remove(number)

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

    def _watch(self, topic: str, partition: int, since: int | None = None) -> None:
        """Read a partition from now on, or from the outcomes of a time (ms) on, whether it is read already or not."""
        watched = (topic, partition) in self._watched
        if watched and since is None:
            return
        try:
            _, end = readers.watermarks(self._reader, topic, partition)
            if since is not None:
                found = readers.offset_at(self._connection, topic, partition, since)
                end = end if found is None else min(found, end)
            place = TopicPartition(topic, partition, end)
            if watched:
                self._reader.seek(place)
            else:
                self._reader.incremental_assign([place])
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
        topic = message.topic() or ""
        place = topic, read.data.partition, read.data.offset
        number = self._waiting.pop(place, None)
        if number is None and self._moved:
            number = self._arrival(topic, read)
        if number is not None:
            self._reach(topic, ReceivedOutcome(read, value, number))
        elif self._is_unreported():
            self._early[place] = ReceivedOutcome(read, value)

    def _arrival(self, topic: str, read: OutcomeEnvelope) -> int | None:
        """The number of a command that has moved to this partition, and has its outcome here."""
        key = topic, read.data.partition, read.causationid or ""
        numbers = self._moved.get(key, [])
        number = numbers.pop(0) if numbers else None
        if not numbers:
            self._moved.pop(key, None)
        return number

    def _reach(self, topic: str, outcome: ReceivedOutcome) -> None:
        """Take an outcome that is ours. One that says where the command has moved to is not the last."""
        said, number = outcome.read.data, outcome.number
        if not isinstance(said.movedto, int) or not isinstance(said.due, str):
            self._met.append(outcome)
            del self._open[number]
            return
        self._moved.setdefault((topic, said.movedto, self._open[number]), []).append(number)
        self._watch(topic, said.movedto, parse_timestamp(said.due) - _SKEW)

    def _is_unreported(self) -> bool:
        """True while the place of a sent command is not known yet."""
        return len(self._open) > len(self._waiting) + sum(map(len, self._moved.values()))


def is_refused(outcome: OutcomeEnvelope) -> bool:
    """True unless the command was accepted, unchanged or deferred, or is a duplicate of one that was."""
    verdict = outcome.data
    status = verdict.original.status if verdict.status == "duplicate" and verdict.original else verdict.status
    return status not in ("accepted", "unchanged", "deferred")
