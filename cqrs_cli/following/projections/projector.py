"""Projects one partition: writes its events in batches, each in one transaction with its position.

After any error the projector reads the position from the database again, and continues there. So a commit whose
response was lost, a restored backup and a killed process are handled in the same way.

A projector needs neither claims nor fences, unlike the owners of commands and of process managers. Its position is in
the same transaction as its rows, and the position's row names the run that may move it. So a stale projector cannot
move the position, and its transaction fails. There are no in-doubt transactions, because a database ends an open
transaction with its session.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.recorded import Recorded, read_recorded_event
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.following.projections.database import forbid_transaction_end, read_only, url_without_password
from cqrs_cli.following.projections.definition import check_columns
from cqrs_cli.following.projections.failures import error_text, retry_policy
from cqrs_cli.following.projections.load import PACKAGE, LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import (
    Position,
    PositionMovedError,
    move_position,
    read_offsets,
    read_own_position,
)
from cqrs_cli.following.projections.stored_errors import StoredError
from cqrs_cli.following.projections.tables import read_table_record
from cqrs_cli.following.subscription import SubscriptionLoop
from cqrs_cli.kafka.event_tail import EventPartition, Tail
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.readers import MissingPartitionError
from cqrs_cli.observer import reached
from cqrs_cli.state.evidence import Evidence, evidence

#: Maximum delay in seconds before a batch is retried, and the delay between two attempts to reach a database or broker.
_MAX_RETRY_DELAY = 0.05
_RECONNECT_DELAY = 1.0

#: Seconds between two checks whether a partition that was added by a repartitioning may start.
_START_CHECK_INTERVAL = 0.5


class Projector:
    """Projects one partition until `stopping` is set or the end offset is reached. It is the sink of its own loop."""

    def __init__(
        self,
        plan: ProjectionPlan,
        source: EventPartition,
        loaded_projection: LoadedProjection,
        engine: Engine,
        open_tail: Callable[[EventPartition, Position], Tail],
        stopping: threading.Event,
    ) -> None:
        self._plan, self._source, self._loaded, self._engine = plan, source, loaded_projection, engine
        self._open_tail, self._stopping = open_tail, stopping
        self._key_space = plan.follow_key_space(source)
        self.offset, self.limit, self.check_interval = 0, plan.batch, plan.ownership_interval
        self._end_offset = None if plan.end_offsets is None else plan.end_offsets[source]
        self._aggregate = loaded_projection.aggregates[source.aggregate]
        self._project: Callable[[Any, Sequence[Recorded[Any]]], None] = loaded_projection.projection.project
        self._event_count = 0  # number of projected events
        self._stored_error = StoredError(engine, plan, source)
        self._failed_offset: int | None = None  # offset of the event that failed
        self._unavailable_since: float | None = None
        self._is_database_unavailable = False
        self._reported_waiting = False
        self.result: ProjectorResult | None = None

    def run(self) -> None:
        """Project until the end, set `result`, and store its error in the database."""
        error: CqrsError | None = None
        started_at = time.time()
        try:
            self._project_log()
        except CqrsError as expected_error:
            error = expected_error
        # Also `SystemExit` of the projection's code: the thread needs a result.
        except BaseException as bug:
            error = CqrsError(f"{self._name()}: {type(bug).__name__}: {error_text(bug)}", "see the log")
            error.__cause__ = bug
        self.result = ProjectorResult(self._source, self._event_count, started_at, time.time(), error)
        if error is not None and not self._is_database_unavailable:
            self._stored_error.store(
                error, self.offset if self._failed_offset is None else self._failed_offset
            )

    def _project_log(self) -> None:
        while not self._stopping.is_set():
            try:
                position = read_own_position(self._engine, self._plan, self._source)
                if position.next_offset == 0 and not self._may_start():
                    continue
                self.offset = position.next_offset
                self._stored_error.load()
                with closing(self._open_tail(self._source, position)) as tail:
                    ProjectionLoop(self, tail, self.offset, self._end_offset).run(self._stopping.is_set)
                if not self._stopping.is_set():  # the loop has ended at the end offset
                    self._stored_error.clear(self.offset)
                return
            except PositionMovedError:
                continue  # the next `read_own_position` confirms the owner or raises TakenOverError
            except (UnavailableError, MissingPartitionError) as error:
                # A deleted topic is temporary here: opening the tail again raises the error that ends the run.
                if self._unavailable_since is None:
                    self._stored_error.store(error, self.offset)
                self._wait_for_service(error.message)
            except SQLAlchemyError as error:
                self._handle_database_error(error)

    def _may_start(self) -> bool:
        """Return True if the partition may start (`is_ready`); else wait a little, and return False."""
        if self._end_offset == 0 or self.is_ready():
            return True
        if not self._reported_waiting:
            self._reported_waiting = True
            reached(
                "message",
                text=f"{self._name()}: waits for its parent partition, which had its keys before",
            )
        self._stopping.wait(_START_CHECK_INTERVAL)
        return False

    def is_ready(self) -> bool:
        """Return True if the parent partitions are projected up to the split, so that events come in order."""

        def positions() -> dict[int, int]:
            with read_only(self._engine).connect() as connection:
                return read_offsets(connection, self._plan.name, self._source.topic)

        return self._key_space.is_ready(self._source.partition, positions)

    def is_ready_in(self, db: Connection) -> bool:
        """Return `is_ready` according to the positions that the transaction of `db` sees.

        The first batch of a partition checks this again, because a restored backup may have reset the positions of the
        parent partitions.
        """
        name, source = self._plan.name, self._source
        return self._key_space.is_ready(source.partition, lambda: read_offsets(db, name, source.topic))

    def admit_batch(self, position: int, first_offset: int) -> AbstractContextManager[None]:
        return nullcontext()

    def check_owner(self, position: int) -> None:
        if position != self.offset or self._stored_error.exists:
            self.commit_position(position)
        elif read_own_position(self._engine, self._plan, self._source).next_offset != position:
            raise PositionMovedError

    def commit_position(self, offset: int) -> None:
        self._commit([], offset)

    def write_batch(self, records: list[Record], next_offset: int, last_record: Record | None) -> None:
        """Write the decoded `records`. `last_record`: the last record as it is in the log, before it was decoded."""
        last_event = None if last_record is None else evidence(last_record)
        events = [event for event in map(self._decode, records) if type(event.event) in self._loaded.events]
        try:
            self._commit(events, next_offset, last_event)
        except (PositionMovedError, CqrsError):
            raise
        except BaseException as error:  # the projection's code may raise any exception
            if retry_policy(error) != "none":
                raise
            self._write_singly(events, next_offset)

    def _write_singly(self, events: list[Recorded[Event]], next_offset: int) -> None:
        """Write each event in its own transaction, to find the failing event, and to commit all events before it."""
        for event in events:
            try:
                self._commit([event], event.offset + 1)
            except (PositionMovedError, CqrsError):
                raise
            except BaseException as error:  # the projection's code may raise any exception
                if retry_policy(error) != "none":
                    raise
                self._check_tables()
                self._failed_offset = event.offset
                raise self._projection_error(event, error) from self._aggregate.redact_error(error)
        if self.offset < next_offset:
            self._commit([], next_offset)

    def _commit(
        self, events: list[Recorded[Event]], next_offset: int, last_event: Evidence | None = None
    ) -> None:
        """Write a batch in one transaction: first the position, then the rows."""
        began_at = time.time_ns()
        with self._engine.begin() as db:
            move_position(db, self._plan, self._source, self.offset, next_offset, last_event)
            if self.offset == 0 and not self.is_ready_in(db):
                raise PositionMovedError
            if self._stored_error.exists:
                self._stored_error.delete(db)
            if events:
                with forbid_transaction_end(db):
                    self._project(db, events)
        self.offset, self._stored_error.exists = next_offset, False
        self._event_count += len(events)
        reached("project.after", projection=self._plan.name, events=events, began_at=began_at)
        if self._unavailable_since is not None:
            reached("message", text=f"{self._name()}: continues")
        self._unavailable_since, self._is_database_unavailable = None, False

    def _decode(self, record: Record) -> Recorded[Event]:
        source = self._source
        try:
            return read_recorded_event(
                self._aggregate, record.value, source.topic, source.partition, record.offset
            )
        except FoldError as error:
            self._failed_offset = record.offset
            raise record_fault(
                source.aggregate, "events", source.topic, source.partition, record.offset, error
            ) from error

    def _projection_error(self, event: Recorded[Event], error: BaseException) -> CqrsError:
        event_type, reason = (
            self._aggregate.type_of(event.event),
            self._aggregate.describe_error(error, PACKAGE),
        )
        if isinstance(error, SQLAlchemyError) and not self._aggregate.has_personal_fields:
            reason = f"{reason.partition(': ')[0]}: {type(error).__name__}: {error_text(error)}"
        return CqrsError(
            f"projection {self._plan.name} raised on {event_type} {event.topic}:{event.partition}@{event.offset}"
            f" ({event.aggregate_id!r}, version {event.version}): {' '.join(reason.split())}",
            "correct the projection and start again: all earlier events are committed, this event is not",
        )

    def _check_tables(self) -> None:
        """Raise an error if another run owns the tables, or if the tables were changed: this explains most errors."""
        read_own_position(self._engine, self._plan, self._source)
        with read_only(self._engine).connect() as connection:
            record = read_table_record(connection, self._plan.name)
            if record is not None:
                check_columns(connection, self._plan.name, record.tables)

    def _handle_database_error(self, error: SQLAlchemyError) -> None:
        """Wait before the batch is retried; raises an error if a retry does not help."""
        match retry_policy(error):
            case "again":
                self._stopping.wait(random.uniform(0, _MAX_RETRY_DELAY))
            case "wait":
                self._engine.dispose()
                self._is_database_unavailable = True
                self._wait_for_service(
                    f"no answer from {url_without_password(self._plan.database)} ({error_text(error)})"
                )
            case _:
                self._check_tables()
                named_error = CqrsError(f"{self._name()}: {error_text(error)}", "see the database's log")
                raise named_error from self._aggregate.redact_error(error)

    def _wait_for_service(self, problem: str) -> None:
        """Wait a little for a database or broker; raises `UnavailableError` after `plan.timeout` seconds."""
        now = time.monotonic()
        if self._unavailable_since is None:
            reached("message", text=f"{self._name()}: {problem}; still trying")
            self._unavailable_since = now
        timeout = self._plan.timeout
        if timeout is not None and now - self._unavailable_since > timeout:
            raise UnavailableError(
                f"{self._name()}: {problem}, for {timeout:g} s",
                "start the run again when the service is available: committed batches stay",
            ) from None  # SQLAlchemy's errors contain row values
        self._stopping.wait(_RECONNECT_DELAY)

    def _name(self) -> str:
        return f"projection {self._plan.name}, {self._source.topic} partition {self._source.partition}"


class ProjectionLoop(SubscriptionLoop):
    """The loop of a projector. A batch is complete once its transaction is committed."""

    session: Projector

    def process_batch(self, records: list[Record]) -> None:
        self.session.write_batch(records, self.polled_until, self.tail.last_record)
        self.remaining, self.position = [], self.polled_until
