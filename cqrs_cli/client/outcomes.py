"""Waits for the outcomes of sent commands. An outcome names the partition and offset of its command. The sender learns
both from the delivery report of the command, and so finds the outcome.

If the key of a command has moved to a child partition, the first outcome has the reason `MOVED`. The final outcome is
in the child partition, and is found by the command id.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from cqrs_cli.client.producer import CommandProducer, OnFailure
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds without an outcome after which `OutcomeWaiter` calls `on_quiet`. Most outcomes arrive within 0.05 s.
QUIET_TIMEOUT = 1.0

#: Milliseconds by which the clocks of two brokers may differ. An owner forwards a moved command before `MOVED` is
#: visible. So the outcome in the child partition, with the timestamp of another broker, may be earlier than `MOVED`.
_MAX_CLOCK_DIFFERENCE = 60_000

#: A command that has moved: (outcomes topic, child partition, command id).
_MovedCommand = tuple[str, int, str]


class ReceivedOutcome(NamedTuple):
    """The outcome of a sent command."""

    envelope: OutcomeEnvelope
    value: bytes  # the envelope as JSON
    number: int = 0  # the number of the command, which `OutcomeWaiter.send` returned
    timestamp: int = 0  # the timestamp of the outcome's record in ms


class OutcomeWaiter:
    """Sends commands and reads their outcomes, read_committed. Use it as a context manager.

    Reading of a partition's outcomes starts at the end of the log, *before* the first command is sent to this
    partition, so that no outcome is missed. An outcome may be read before the delivery report of its command: both are
    kept until they are matched.
    """

    def __init__(
        self, connection: Connection, sender: CommandProducer, on_quiet: Callable[[], None] | None = None
    ) -> None:
        """`on_quiet` is called once, when `remaining_outcomes` has waited `QUIET_TIMEOUT` seconds for an outcome."""
        self._connection = connection
        self._sender = sender
        self._reader: Consumer = clients.consumer(connection)
        read_error = partial(readers.read_error, connection)
        self._follower = Follower(self._reader, read_error, on_unreachable=lambda: None)
        # The partitions that are read, as (outcomes topic, partition).
        self._assigned: set[tuple[str, int]] = set()
        self._outstanding: dict[int, str] = {}  # number → id of each command without an outcome
        self._last_number = 0
        #: Position of a delivered command (outcomes topic, partition, offset) → number of the command.
        self._reported: dict[tuple[str, int, int], int] = {}
        #: Position of a command → its outcome, which was read while the delivery report may still follow.
        self._unmatched: dict[tuple[str, int, int], ReceivedOutcome] = {}
        self._matched: list[ReceivedOutcome] = []  # outcomes that `poll_outcomes` returns next
        #: Moved command → the numbers of all sends of its id, which get their outcomes in this order.
        self._moved: dict[_MovedCommand, list[int]] = {}
        #: Moved command → its outcome in the child partition, which was read before `MOVED`.
        self._unmatched_by_id: dict[_MovedCommand, ReceivedOutcome] = {}
        #: Child partition that is to be read (outcomes topic, partition) → earliest timestamp of `MOVED` in ms.
        self._new_targets: dict[tuple[str, int], int] = {}
        # The partitions in `_assigned` that are read because commands have moved there.
        self._assigned_targets: set[tuple[str, int]] = set()
        # Outcomes topics with a `MOVED` outcome since their metadata were refreshed.
        self._repartitioned: set[str] = set()
        self._on_quiet = on_quiet

    def __enter__(self) -> "OutcomeWaiter":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def outstanding(self) -> list[str]:
        """The ids of the commands without an outcome, in the order of sending."""
        return list(self._outstanding.values())

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """The partitions of the outstanding outcomes, as (outcomes topic, partition)."""
        return {(topic, partition) for topic, partition, _ in [*self._reported, *self._moved]}

    def send(
        self, topics: Topics, key: bytes, value: bytes, command_id: str, on_failure: OnFailure | None = None
    ) -> int:
        """Send a command like `CommandProducer.send`, and return its number. `poll_outcomes` then returns its outcome.

        A command that could not be sent is forgotten at once: while the offset of any command is unknown, the outcomes
        of all other senders are kept in memory. The metadata of a repartitioned topic is refreshed only while no
        command is outstanding, so that no command overtakes an earlier command.
        """
        if not self._outstanding:
            self._unmatched_by_id.clear()
            if topics.outcomes in self._repartitioned:
                self._sender.forget_partition_count(topics.commands)
                clients.fetch_metadata(self._connection, self._reader, topics.outcomes)  # refresh metadata
                self._repartitioned.remove(topics.outcomes)
        self._assign(topics.outcomes, self._sender.partition_of(topics.commands, key))
        self._last_number = number = self._last_number + 1
        self._outstanding[number] = command_id

        def on_delivered(partition: int, offset: int) -> None:
            position = topics.outcomes, partition, offset
            outcome = self._unmatched.pop(position, None)
            if number not in self._outstanding:
                pass  # `forget` was called
            elif outcome is None:
                self._reported[position] = number
            else:
                self._receive(topics.outcomes, outcome._replace(number=number))
            if not self._has_unreported():
                self._unmatched.clear()

        try:
            self._sender.send(topics.commands, key, value, on_delivered, on_failure)
        except CqrsError:
            self.forget(number)
            raise
        return number

    def forget(self, number: int) -> None:
        """Stop waiting for the outcome of the command with this number."""
        self._outstanding.pop(number, None)
        self._reported = {
            position: other_number
            for position, other_number in self._reported.items()
            if other_number != number
        }
        for moved_command, numbers in [*self._moved.items()]:
            self._set_moved(
                moved_command, [other_number for other_number in numbers if other_number != number]
            )

    def poll_outcomes(self, timeout: float = 0.0) -> list[ReceivedOutcome]:
        """Return the outcomes that have arrived; wait at most `timeout` seconds for the first record of any sender."""
        messages = self._follower.poll(1000, timeout)
        own_ids = set(self._outstanding.values()) if self._assigned_targets else set()
        for message in messages:
            self._match(message, own_ids)
        self._assign_targets()
        outcomes, self._matched = self._matched, []
        return outcomes

    def remaining_outcomes(self, timeout: float) -> Iterator[list[ReceivedOutcome]]:
        """Flush the producer, and yield the outstanding outcomes as they arrive. Stop early if no outcome arrives for
        `timeout` seconds.
        """
        self._sender.flush()
        deadline = time.monotonic() + timeout
        while self._outstanding or self._matched:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return
            outcomes = self.poll_outcomes(min(seconds_left, 0.2))
            if outcomes:
                yield outcomes
                deadline = time.monotonic() + timeout
            elif self._on_quiet is not None and timeout - seconds_left > min(QUIET_TIMEOUT, timeout / 2):
                self._on_quiet()
                self._on_quiet = None

    def _assign(self, topic: str, partition: int, since: int | None = None) -> None:
        """Read a partition from its end, or from the first record since the time `since` (ms)."""
        if (topic, partition) in self._assigned:
            return
        try:
            _, end = readers.watermarks(self._reader, topic, partition)
            first_offset = (
                None if since is None else readers.offset_with(self._reader, topic, partition, since)
            )
            start = end if first_offset is None else first_offset
            self._reader.incremental_assign([TopicPartition(topic, partition, start)])
        except readers.MissingPartitionError:
            # Raises the precise error: the topic is missing, or an ACL hides it.
            readers.partition_count(self._connection, topic)
            raise
        except KafkaException as error:
            raise readers.read_error(
                self._connection, topic, partition, clients.kafka_error(error)
            ) from error
        self._assigned.add((topic, partition))

    def _match(self, message: Message, own_ids: set[str]) -> None:
        """Match the outcome in `message` to a sent command; keep it if the delivery report or `MOVED` may come later.

        `own_ids`: the ids of the outstanding commands.
        """
        value = message.value() or b""
        try:
            envelope = read_outcome(value)
        except ValueError:
            return  # a foreign record
        topic, partition = message.topic() or "", message.partition() or 0
        position = (topic, envelope.data.partition, envelope.data.offset)
        moved_command = (topic, partition, envelope.causationid or "")
        outcome = ReceivedOutcome(envelope, value, 0, message.timestamp()[1])
        number = self._reported.pop(position, None)
        if number is None and (numbers := self._moved.get(moved_command)):
            number = numbers[0]
            self._set_moved(moved_command, numbers[1:])
        if number is not None:
            self._receive(topic, outcome._replace(number=number))
            return
        if self._has_unreported():
            self._unmatched[position] = outcome
        if moved_command[2] in own_ids and (topic, partition) in self._assigned_targets:
            self._unmatched_by_id[moved_command] = outcome

    def _receive(self, topic: str, outcome: ReceivedOutcome) -> None:
        """Store the outcome of a sent command for `poll_outcomes`. After `MOVED`, wait for the outcome in the child
        partition instead.
        """
        verdict = outcome.envelope.data
        if verdict.reason != Reason.MOVED.name or not isinstance(verdict.movedto, int):
            self._matched.append(outcome)
            del self._outstanding[outcome.number]
            return
        target, moved_command = (
            (topic, verdict.movedto),
            (topic, verdict.movedto, outcome.envelope.causationid or ""),
        )
        self._repartitioned.add(topic)
        if target not in self._assigned_targets:
            self._new_targets[target] = min(
                outcome.timestamp, self._new_targets.get(target, outcome.timestamp)
            )
        if (outcome_of_child := self._unmatched_by_id.pop(moved_command, None)) is not None:
            self._receive(topic, outcome_of_child._replace(number=outcome.number))
        else:
            self._moved.setdefault(moved_command, []).append(outcome.number)

    def _set_moved(self, moved_command: _MovedCommand, numbers: list[int]) -> None:
        """Replace the numbers of the commands that wait for the outcome of `moved_command`."""
        if numbers:
            self._moved[moved_command] = numbers
        else:
            del self._moved[moved_command]

    def _assign_targets(self) -> None:
        """Begin to read the partitions to which commands have moved, from the earliest possible time of an outcome."""
        for (topic, partition), since in self._new_targets.items():
            if (topic, partition) in self._assigned:
                self._reader.incremental_unassign([TopicPartition(topic, partition)])
                self._assigned.remove((topic, partition))
            clients.fetch_metadata(
                self._connection, self._reader, topic
            )  # librdkafka may not know the partition yet
            self._assign(topic, partition, max(0, since - _MAX_CLOCK_DIFFERENCE))
        self._assigned_targets |= self._new_targets.keys()
        self._new_targets.clear()

    def _has_unreported(self) -> bool:
        """True while the offset of a sent command is unknown."""
        return len(self._outstanding) > len(self._reported) + sum(map(len, self._moved.values()))


def is_failure(outcome: OutcomeEnvelope) -> bool:
    """True if the command was rejected or failed, or is a duplicate of such a command."""
    verdict = outcome.data
    status = verdict.original.status if verdict.status == "duplicate" and verdict.original else verdict.status
    return status not in ("accepted", "unchanged", "deferred")
