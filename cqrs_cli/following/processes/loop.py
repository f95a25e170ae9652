"""The loop of an owner of an events partition: read events, react, commit commands and position in one transaction.

`owner.ReactingOwner` describes the steps before the loop.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.core.aggregate.errors import is_interrupt
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.react import InvalidReaction, call_react
from cqrs_cli.core.recorded import read_recorded_event
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.processes.compose import ComposedCommand, Composer
from cqrs_cli.following.processes.errors import poison_event
from cqrs_cli.following.processes.load import PROCESSES, LoadedProcess
from cqrs_cli.following.processes.position import ProcessPosition
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail, ReportProgress
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError
from cqrs_cli.ownership.claim import after_batch
from cqrs_cli.ownership.loop import Loop
from cqrs_cli.ownership.signals import BatchTooLarge


@dataclass
class ReactionContext:
    """The code of a process manager, and its progress in one partition. An owner that restarts continues with it."""

    loaded: LoadedProcess
    composer: Composer
    report: ReportProgress
    #: Offset of an event → why a topic rejects its commands
    rejected_events: dict[int, str] = field(default_factory=dict)
    events: int = 0  # events with a reaction
    commands: int = 0  # commands sent


class StoppedError(Exception):
    """The process manager cannot continue after an event; `error` ends the run."""

    def __init__(self, offset: int, error: CqrsError) -> None:
        super().__init__(error.message)
        self.offset, self.error = offset, error


class ReactLoop(Loop):
    """The loop of one owner."""

    session: ReactSession

    def __init__(self, session: ReactSession, context: ReactionContext, start: int) -> None:
        targets = session.plan.targets
        super().__init__(session, start, None if targets is None else targets[session.subscription])
        self.context, self.loaded = context, context.loaded
        self.aggregate = self.loaded.sources[session.subscription.source.aggregate]
        self.polled_until = start  # the offset up to which events were polled
        self.current_event: Record | None = None  # the event that `react` is processing
        self.poison_event = poison_event(session.own_claim.suspects)
        #: Given a position in this partition, returns the first position of each child for the splits up to there.
        self.due_positions: Callable[[int], dict[EventPartition, ProcessPosition]] = lambda position: {}

    def start_polling(self) -> None:
        session, source = self.session, self.session.subscription.source
        connection = session.plan.connection
        report = self.context.report
        session.codec = decrypting_codec(connection, source.topics, self.aggregate)
        self.tail = PartitionTail(connection, source, self.position, report, session.codec, session.consumer)

    def poll(self) -> list[Record]:
        limit = self.session.limit
        if not self.remaining:
            self.remaining, self.polled_until = self.tail.poll(limit)
        return self.remaining[:limit]

    def run_idle_work(self) -> None:
        """Skip offsets without an event: transaction markers and aborted records."""
        if not self.remaining:
            self.position = max(self.position, self.polled_until)
        self.run_due_work()

    def run_due_work(self) -> None:
        """Let child partitions start: write the first position of each child when the events of its keys before the
        split are processed.
        """
        if first_positions := self.due_positions(self.position):
            self.session.target_positions = first_positions
            self.session.commit_position(self.position)

    def process_batch(self, records: list[Record]) -> None:
        """React to as many records as one transaction should contain; the other records remain in `remaining`.

        Raises the error that stops the process manager at an event.
        """
        timing = self.session.timing
        failpoints.reached("decide.before")
        commands: list[ComposedCommand] = []
        deadline, size, processed, reacted_count = time.monotonic() + timing.batch_seconds, 0, 0, 0
        stopped: StoppedError | None = None
        for record in records:
            self.current_event = record
            try:
                commands_of_event = self._react(record)
            except StoppedError as error:
                stopped = error
                break
            finally:
                self.current_event = None
            processed += 1
            if commands_of_event is None:
                continue
            reacted_count += 1
            commands += commands_of_event
            size += sum(command.size for command in commands_of_event)
            if size > timing.batch_bytes or time.monotonic() > deadline:
                break
        failpoints.reached("decide.after")
        self.remaining = self.remaining[processed:]
        end = self.remaining[0].offset if self.remaining else self.polled_until
        self._commit(commands, end, records[0].offset, processed, stopped)
        self.position = end
        self.context.events += reacted_count
        self.context.commands += len(commands)
        self.session.has_committed_batch = self.session.has_committed_batch or processed > 0
        self.session.batch_limit = min(self.session.batch_limit * 2, timing.batch_limit)
        if stopped is not None:
            raise stopped.error

    def _commit(
        self,
        commands: list[ComposedCommand],
        next_offset: int,
        first_offset: int,
        record_count: int,
        stop: StoppedError | None,
    ) -> None:
        session, previous_position = self.session, self.session.position
        assert previous_position is not None
        claim = after_batch(session.own_claim, session.own_claim.counts, record_count, next_offset)
        if stop is not None:
            claim = replace(claim, suspects=None)  # clears the suspects: corrected code must not inherit them
        position = replace(
            previous_position, offset=next_offset, claim=claim, stopped=None if stop is None else stop.offset
        )
        try:
            session.commit(commands, position)
            session.own_claim = claim
        except BatchRefusedError as error:
            is_late = isinstance(error, BatchLateError)
            raise BatchTooLarge(first_offset, record_count, str(error), is_late, False) from error

    def _react(self, record: Record) -> list[ComposedCommand] | None:
        """Return the commands for a record; None for an event outside the subscription."""
        source, loaded = self.session.subscription.source, self.loaded
        try:
            recorded = read_recorded_event(
                self.aggregate, record.value, source.topic, source.partition, record.offset
            )
        except FoldError as error:
            raise StoppedError(record.offset, self._unreadable_error(record, error)) from error
        if type(recorded.event) not in loaded.events:
            return None
        event_type = self.aggregate.type_of(recorded.event)
        details = f"({recorded.aggregate_id!r}, version {recorded.version})"
        if self.poison_event is not None and self.poison_event.offset == record.offset:
            raise self._stop_at(record, f"cannot process {event_type}", details, self.poison_event.reason)
        if (rejection := self.context.rejected_events.get(record.offset)) is not None:
            raise self._stop_at(record, f"cannot send the commands for {event_type}", details, rejection)
        try:
            return self.context.composer.compose(recorded, call_react(loaded.process, recorded))
        except InvalidReaction as error:
            stop = self._stop_at(
                record, f"returned invalid commands for {event_type}", details, f"{loaded.location}: {error}"
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
