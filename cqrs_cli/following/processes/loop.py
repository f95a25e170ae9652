"""The loop of an owner of an events partition: read events, react, commit commands and position in one transaction.

`owner.ReactingOwner` describes the steps before the loop.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.errors import is_interrupt
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.react import InvalidReaction, call_react
from cqrs_cli.core.recorded import Recorded, read_recorded_event
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.last_error import last_error
from cqrs_cli.following.processes.composer import ComposedRecord, Composer
from cqrs_cli.following.processes.errors import poison_event
from cqrs_cli.following.processes.load import PROCESSES, LoadedProcess
from cqrs_cli.following.processes.position import ProcessPosition
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.following.subscription import SubscriptionLoop
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import after_batch
from cqrs_cli.ownership.signals import UnwritableBatch

#: (event, the commands that `react` returned for it).
Reaction = tuple[Recorded[Event], list[ComposedRecord]]


@dataclass
class ReactionContext:
    """The code of a process manager, and its progress in one partition. Successive owners share it."""

    loaded: LoadedProcess
    composer: Composer
    #: Offset of an event → the reason why a topic rejects its commands.
    rejected_events: dict[int, str] = field(default_factory=dict)
    reacted_events: int = 0  # number of events for which `react` was called
    sent_commands: int = 0  # number of commands that were sent


class StoppedError(Exception):
    """The process manager stops at the event at `offset`. `error` ends the run."""

    def __init__(self, offset: int, error: CqrsError) -> None:
        super().__init__(error.message)
        self.offset, self.error = offset, error


class ReactLoop(SubscriptionLoop):
    """The loop of one owner."""

    session: ReactSession

    def __init__(self, session: ReactSession, context: ReactionContext, start: int) -> None:
        source, end_offsets = session.subscription.source, session.plan.end_offsets
        self.context, self.loaded = context, context.loaded
        self.aggregate = self.loaded.sources[source.aggregate]
        connection = session.plan.connection
        session.codec = decrypting_codec(connection, source.topics, self.aggregate)
        tail = PartitionTail(connection, source, start, session.codec, session.consumer)
        super().__init__(
            session, tail, start, None if end_offsets is None else end_offsets[session.subscription]
        )
        self.current_event: Record | None = None  # the event that `react` is processing
        self.poison_event = poison_event(session.own_claim.suspects)
        #: (position of this partition) → the first positions of the child partitions whose split it has reached.
        self.due_positions: Callable[[int], dict[EventPartition, ProcessPosition]] = lambda position: {}

    def run_idle_work(self) -> None:
        super().run_idle_work()
        self.run_due_work()

    def run_due_work(self) -> None:
        """Write the first positions of child partitions, so that they can start. All events before their split must
        have been processed.
        """
        if first_positions := self.due_positions(self.position):
            self.session.child_positions = first_positions
            self.session.commit_position(self.position)

    def process_batch(self, records: list[Record]) -> None:
        """React to records until the transaction is large enough, and commit it; other records stay in `remaining`.

        Raises the error that stops the process manager at an event.
        """
        timing = self.session.timing
        reached("decide.before")
        reactions: list[Reaction] = []
        deadline, batch_bytes = time.monotonic() + timing.batch_seconds, 0
        processed_count = 0
        stopped: StoppedError | None = None
        for record in records:
            self.current_event = record
            try:
                reaction = self._react(record)
            except StoppedError as error:
                stopped = error
                break
            finally:
                self.current_event = None
            processed_count += 1
            if reaction is None:
                continue
            reactions.append(reaction)
            batch_bytes += sum(command.size for command in reaction[1])
            if batch_bytes > timing.batch_bytes or time.monotonic() > deadline:
                break
        reached("decide.after")
        self.remaining = self.remaining[processed_count:]
        next_offset = self.remaining[0].offset if self.remaining else self.polled_until
        commands = [command for _, commands_of_event in reactions for command in commands_of_event]
        self._commit(commands, next_offset, records[0].offset, processed_count, stopped)
        self.position = next_offset
        self.context.reacted_events += len(reactions)
        self.context.sent_commands += len(commands)
        if processed_count:
            self.session.has_committed_batch = True
            reached(
                "batch.after",
                records=records[:processed_count],
                process=self.loaded.name,
                reactions=reactions,
            )
        self.session.batch_limit = min(self.session.batch_limit * 2, timing.batch_limit)
        if stopped is not None:
            raise stopped.error

    def _commit(
        self,
        commands: list[ComposedRecord],
        next_offset: int,
        first_offset: int,
        record_count: int,
        stop: StoppedError | None,
    ) -> None:
        session, previous_position = self.session, self.session.position
        assert previous_position is not None
        claim = after_batch(session.own_claim, session.own_claim.counts, record_count, next_offset)
        if stop is not None:
            claim = replace(claim, suspects=None)  # corrected code must not inherit suspects
        position = replace(
            previous_position,
            offset=next_offset,
            claim=claim,
            stopped=None if stop is None else stop.offset,
            error=None if stop is None else last_error(stop, stop.error.message, stop.offset),
        )
        try:
            session.commit(commands, position)
            session.own_claim = claim
        except BatchRefusedError as error:
            is_late = isinstance(error, BatchLateError)
            raise UnwritableBatch(first_offset, record_count, str(error), is_late, False) from error

    def _react(self, record: Record) -> Reaction | None:
        """Return the event of a record, and the commands for it; None for an event outside the subscription."""
        source, loaded = self.session.subscription.source, self.loaded
        try:
            recorded = read_recorded_event(
                self.aggregate, record.value, source.topic, source.partition, record.offset
            )
        except FoldError as error:
            raise StoppedError(record.offset, self._unreadable_error(record, error)) from error
        if type(recorded.event) not in loaded.events:
            return None
        event_type, noun = self.aggregate.type_of(recorded.event), loaded.process.noun
        details = f"({recorded.aggregate_id!r}, version {recorded.version})"
        if self.poison_event is not None and self.poison_event.offset == record.offset:
            raise self._stop_at(record, f"cannot process {event_type}", details, self.poison_event.reason)
        if (rejection := self.context.rejected_events.get(record.offset)) is not None:
            raise self._stop_at(record, f"cannot send the {noun} for {event_type}", details, rejection)
        try:
            return recorded, self.context.composer.compose(recorded, call_react(loaded.process, recorded))
        except InvalidReaction as error:
            stop = self._stop_at(
                record, f"returned invalid {noun} for {event_type}", details, f"{loaded.location}: {error}"
            )
            raise stop from self.aggregate.redact_error(error)
        except BaseException as error:  # user code may raise any error
            if is_interrupt(error):
                raise
            reason = self.aggregate.describe_error(error, PROCESSES)
            raise self._stop_at(
                record, f"raised on {event_type}", details, reason
            ) from self.aggregate.redact_error(error)

    def _stop_at(self, record: Record, problem: str, details: str, reason: str) -> StoppedError:
        position = self._position_text(record)
        error = CqrsError(
            f"process {self.loaded.name} {problem} {position} {details}: {' '.join(reason.split())}",
            f"correct the process manager and start again; or skip this event: {self._skip_command(record)}",
        )
        return StoppedError(record.offset, error)

    def _unreadable_error(self, record: Record, error: FoldError) -> CqrsError:
        return ContradictionError(
            f"{self._position_text(record)}: {error}",
            f"deploy code that can read the event; or skip this event: {self._skip_command(record)}",
        )

    def _position_text(self, record: Record) -> str:
        source = self.session.subscription.source
        return format_position(source.partition, record.offset, source.topic)

    def _skip_command(self, record: Record) -> str:
        source, name = self.session.subscription.source, self.loaded.name
        position = format_position(source.partition, record.offset, f"{name}:{source.aggregate}")
        return f"cqrs run --process {name} --skip {position}"
