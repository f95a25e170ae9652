"""Wait for the outcomes of sent commands, which are matched by partition and offset of the delivery report.

The outcome of a command whose key has moved (`MOVED`) is in the target partition, and is matched by the command id.
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

#: Seconds without an outcome until the sender checks if there is an owner. Most outcomes arrive within 0.05 s.
QUIET = 1.0

#: Milliseconds by which the clocks of two brokers may differ. An owner forwards a command before `MOVED` is visible, so
#: the outcome in the target partition may have an earlier timestamp than `MOVED`, by another broker's clock.
_CLOCKS = 60_000

#: The outcomes topic, the target partition, and the command id of a moved command.
_Moved = tuple[str, int, str]


class ReceivedOutcome(NamedTuple):
    """The outcome of a sent command: decoded, its bytes, and the number that `OutcomeWaiter.send` returned.

    `timestamp` of the outcome record, in ms.
    """

    read: OutcomeEnvelope
    value: bytes
    number: int = 0
    timestamp: int = 0


class OutcomeWaiter:
    """Sends commands and reads their outcomes, read_committed. Use it as a context manager.

    Reading a partition starts at its end, *before* the first command is sent to it, so that no outcome is missed. An
    outcome may be read before the delivery report of its command; both are kept until they are matched.
    """

    def __init__(
        self, connection: Connection, sender: CommandProducer, quiet: Callable[[], None] | None = None
    ) -> None:
        """`quiet` is called once, when no outcome has arrived for `QUIET` seconds."""
        self._connection = connection
        self._sender = sender
        self._reader: Consumer = clients.consumer(connection)
        failure = partial(readers.read_error, connection)
        self._follower = Follower(self._reader, failure, unreachable=lambda: None)
        self._watched: set[tuple[str, int]] = set()
        self._open: dict[int, str] = {}  # command number → command id
        self._sent = 0
        self._waiting: dict[tuple[str, int, int], int] = {}
        self._early: dict[tuple[str, int, int], ReceivedOutcome] = {}
        self._met: list[ReceivedOutcome] = []
        self._moved: dict[_Moved, list[int]] = {}  # numbers, in the order of their outcomes
        self._ahead: dict[_Moved, ReceivedOutcome] = {}  # outcomes read before `MOVED`, by id only
        self._heirs: dict[tuple[str, int], int] = {}  # targets to assign, from this time, ms
        self._followed: set[tuple[str, int]] = set()  # assigned targets
        self._grown: set[str] = set()  # outcomes topics that were repartitioned
        self._quiet = quiet

    def __enter__(self) -> "OutcomeWaiter":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def outstanding(self) -> list[str]:
        """The ids of the commands without an outcome, in the order of sending."""
        return list(self._open.values())

    @property
    def places(self) -> set[tuple[str, int]]:
        """The outcomes topics and partitions of the outstanding outcomes."""
        return {(topic, partition) for topic, partition, _ in [*self._waiting, *self._moved]}

    def send(
        self, topics: Topics, key: bytes, value: bytes, command_id: str, failed: Failed | None = None
    ) -> int:
        """Send a command like `CommandProducer.send`, wait for its outcome from now on, and return its number.

        A command that was not sent is forgotten, because all outcomes of other senders are kept while an offset is
        unknown. The metadata of a repartitioned topic is refreshed only while no command is outstanding, so that no
        command overtakes an earlier command.
        """
        if not self._open:
            self._ahead.clear()
            if topics.outcomes in self._grown:
                self._sender.look_again(topics.commands)
                clients.fetch_metadata(self._connection, self._reader, topics.outcomes)  # refresh metadata
                self._grown.remove(topics.outcomes)
        self._watch(topics.outcomes, self._sender.partition_of(topics.commands, key))
        self._sent = number = self._sent + 1
        self._open[number] = command_id

        def reported(partition: int, offset: int) -> None:
            place = topics.outcomes, partition, offset
            early = self._early.pop(place, None)
            if number not in self._open:
                pass  # `forget` was called
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
        """Stop waiting for the outcome of the command with this number."""
        self._open.pop(number, None)
        self._waiting = {place: other for place, other in self._waiting.items() if other != number}
        for key, numbers in [*self._moved.items()]:
            self._leave(key, [other for other in numbers if other != number])

    def arrived(self, timeout: float = 0.0) -> list[ReceivedOutcome]:
        """Return the outcomes that have arrived; wait at most `timeout` seconds for the first record."""
        messages = self._follower.poll(1000, timeout)
        ours = set(self._open.values()) if self._followed else set()
        for message in messages:
            self._meet(message, ours)
        self._follow_heirs()
        met, self._met = self._met, []
        return met

    def rest(self, patience: float) -> Iterator[list[ReceivedOutcome]]:
        """Yield the outstanding outcomes as they arrive; stop early if no outcome arrives for `patience` seconds."""
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
        """Read a partition from its end, or from the first record at `since`, ms."""
        if (topic, partition) in self._watched:
            return
        try:
            _, end = readers.watermarks(self._reader, topic, partition)
            first = None if since is None else readers.offset_with(self._reader, topic, partition, since)
            start = end if first is None else first
            self._reader.incremental_assign([TopicPartition(topic, partition, start)])
        except readers.MissingError:
            # Raises the precise error: the topic is missing, or an ACL hides it.
            readers.partition_count(self._connection, topic)
            raise
        except KafkaException as error:
            raise readers.read_error(
                self._connection, topic, partition, clients.kafka_error(error)
            ) from error
        self._watched.add((topic, partition))

    def _meet(self, message: Message, ours: set[str]) -> None:
        value = message.value() or b""
        try:
            read = read_outcome(value)
        except ValueError:
            return  # a foreign record
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
        """Take an outcome of a sent command. After `MOVED`, wait for the outcome in the target partition."""
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
        """Replace the numbers that wait for a moved outcome."""
        if numbers:
            self._moved[moved] = numbers
        else:
            del self._moved[moved]

    def _follow_heirs(self) -> None:
        """Read the partitions to which commands have moved, from the earliest time of their outcomes."""
        for (topic, partition), since in self._heirs.items():
            if (topic, partition) in self._watched:
                self._reader.incremental_unassign([TopicPartition(topic, partition)])
                self._watched.remove((topic, partition))
            clients.fetch_metadata(self._connection, self._reader, topic)  # librdkafka may not know it yet
            self._watch(topic, partition, max(0, since - _CLOCKS))
        self._followed |= self._heirs.keys()
        self._heirs.clear()

    def _is_unreported(self) -> bool:
        """True while the offset of a sent command is unknown."""
        return len(self._open) > len(self._waiting) + sum(map(len, self._moved.values()))


def is_refused(outcome: OutcomeEnvelope) -> bool:
    """True if the command was rejected or failed, or is a duplicate of such a command."""
    verdict = outcome.data
    status = verdict.original.status if verdict.status == "duplicate" and verdict.original else verdict.status
    return status not in ("accepted", "unchanged", "deferred")
