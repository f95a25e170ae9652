"""Waiting for the outcomes of commands that were just sent, matched by partition and offset of the delivery report.

A command whose key has moved to another partition (`MOVED`) has its outcome there: it is matched by its id.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from cqrs_cli.client.producer import CommandProducer, Failed
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds without an outcome before it is worth asking if there is an owner: most have theirs in 0.05 s.
QUIET = 1.0

#: Milliseconds by which the clocks of two brokers may differ. A command is forwarded before `MOVED` can be read, so its
#: outcome may be older than that, by the clock of another broker.
_CLOCKS = 60_000

#: Topic of outcomes, partition, and the id of a command.
_Moved = tuple[str, int, str]


class ReceivedOutcome(NamedTuple):
    """An outcome of a command that we sent: decoded, its bytes, and the number that `OutcomeWaiter.send` returned.

    `timestamp`: of its record, ms.
    """

    read: OutcomeEnvelope
    value: bytes
    number: int = 0
    timestamp: int = 0


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
        self._moved: dict[_Moved, list[int]] = {}  # where these numbers have their outcomes, in this order
        self._ahead: dict[_Moved, ReceivedOutcome] = {}  # that came before `MOVED`: ours, as far as ids say
        self._heirs: dict[tuple[str, int], int] = {}  # that are to be read, and since when, ms
        self._followed: set[tuple[str, int]] = set()  # the heirs that are read
        self._grown: set[str] = set()  # topics of outcomes
        self._quiet = quiet

    def __enter__(self) -> "OutcomeWaiter":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def outstanding(self) -> list[str]:
        """The ids of the commands that have no outcome yet, in the order they were sent."""
        return list(self._open.values())

    @property
    def places(self) -> set[tuple[str, int]]:
        """The outcomes topics and partitions in which the outcomes that are still to come will be."""
        return {(topic, partition) for topic, partition, _ in [*self._waiting, *self._moved]}

    def send(
        self, topics: Topics, key: bytes, value: bytes, command_id: str, failed: Failed | None = None
    ) -> int:
        """As `CommandProducer.send`, and remember to wait for the outcome; the command's number.

        One that was not sent is not waited for: until its place was known, the outcomes of all others would be kept.
        A topic that has grown is looked at while nothing is on its way: a command must not overtake those before it.
        """
        if not self._open:
            self._ahead.clear()
            if topics.outcomes in self._grown:
                self._sender.look_again(topics.commands)
                clients.described(self._connection, self._reader, topics.outcomes)  # it may have grown
                self._grown.remove(topics.outcomes)
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
                self._take(topics.outcomes, early._replace(number=number))
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
        for key, numbers in [*self._moved.items()]:
            self._leave(key, [other for other in numbers if other != number])

    def arrived(self, timeout: float = 0.0) -> list[ReceivedOutcome]:
        """The outcomes of our commands that have arrived; waits at most `timeout` seconds for the first record."""
        messages = self._follower.poll(1000, timeout)
        ours = set(self._open.values()) if self._followed else set()
        for message in messages:
            self._meet(message, ours)
        self._follow_heirs()
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
        """Read a partition from its end on, or from its first record since then, ms."""
        if (topic, partition) in self._watched:
            return
        try:
            _, end = readers.watermarks(self._reader, topic, partition)
            first = None if since is None else readers.offset_with(self._reader, topic, partition, since)
            start = end if first is None else first
            self._reader.incremental_assign([TopicPartition(topic, partition, start)])
        except readers.MissingError:
            # Raises what it is: a missing topic, or one that we may not see.
            readers.partitions(self._connection, topic)
            raise
        except KafkaException as error:
            raise readers.read_failure(
                self._connection, topic, partition, clients.kafka_error(error)
            ) from error
        self._watched.add((topic, partition))

    def _meet(self, message: Message, ours: set[str]) -> None:
        value = message.value() or b""
        try:
            read = read_outcome(value)
        except ValueError:
            return  # not an outcome, so not an answer to us
        topic, partition = message.topic() or "", message.partition() or 0
        place, moved = (
            (topic, read.data.partition, read.data.offset),
            (topic, partition, read.causationid or ""),
        )
        found = ReceivedOutcome(read, value, 0, message.timestamp()[1])
        number = self._waiting.pop(place, None)
        if number is None and (numbers := self._moved.get(moved)):
            number = numbers[0]
            self._leave(moved, numbers[1:])
        if number is not None:
            self._take(topic, found._replace(number=number))
            return
        if self._is_unreported():
            self._early[place] = found
        if moved[2] in ours and (topic, partition) in self._followed:
            self._ahead[moved] = found

    def _take(self, topic: str, found: ReceivedOutcome) -> None:
        """An outcome of one of our commands: it is final, or says where to look."""
        said = found.read.data
        if said.reason != Reason.MOVED.name or not isinstance(said.movedto, int):
            self._met.append(found)
            del self._open[found.number]
            return
        heir, moved = (topic, said.movedto), (topic, said.movedto, found.read.causationid or "")
        self._grown.add(topic)
        if heir not in self._followed:
            self._heirs[heir] = min(found.timestamp, self._heirs.get(heir, found.timestamp))
        if (ahead := self._ahead.pop(moved, None)) is not None:
            self._take(topic, ahead._replace(number=found.number))
        else:
            self._moved.setdefault(moved, []).append(found.number)

    def _leave(self, moved: _Moved, numbers: list[int]) -> None:
        """Wait for these numbers there, and no longer for others."""
        if numbers:
            self._moved[moved] = numbers
        else:
            del self._moved[moved]

    def _follow_heirs(self) -> None:
        """Read the partitions to which commands have moved, from where their first outcomes may be."""
        for (topic, partition), since in self._heirs.items():
            if (topic, partition) in self._watched:
                self._reader.incremental_unassign([TopicPartition(topic, partition)])
                self._watched.remove((topic, partition))
            clients.described(self._connection, self._reader, topic)  # librdkafka has not heard of it yet
            self._watch(topic, partition, max(0, since - _CLOCKS))
        self._followed |= self._heirs.keys()
        self._heirs.clear()

    def _is_unreported(self) -> bool:
        """True while the place of a sent command is not known yet."""
        return len(self._open) > len(self._waiting) + sum(map(len, self._moved.values()))


def is_refused(outcome: OutcomeEnvelope) -> bool:
    """True unless the command was accepted, unchanged or deferred, or is a duplicate of one that was."""
    verdict = outcome.data
    status = verdict.original.status if verdict.status == "duplicate" and verdict.original else verdict.status
    return status not in ("accepted", "unchanged", "deferred")
