"""Projects one partition: writes its events in batches, each in one transaction with its position.

After any error the projector reads the position from the database again, and continues there. So a commit whose
response was lost, a restored backup and a killed process are handled in the same way.

Owners of commands and of process managers need a supervisor with claims and fences, because Kafka commits the writes of
a stale producer until a newer producer fences it. A projector needs neither. Its position is in the same transaction as
the rows, and the row of the position names the run that may move it: a stale projector finds no such row, so it writes
nothing. An earlier run leaves no in-doubt transaction, because a database ends an open transaction with its session.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.recorded import Recorded, record_event
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.following.projections.barrier import ParentBarrier
from cqrs_cli.following.projections.database import reading, shown, transaction_kept
from cqrs_cli.following.projections.definition import check_columns
from cqrs_cli.following.projections.failures import remedy, words
from cqrs_cli.following.projections.load import PACKAGE, LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import MovedError, move_position, own_position
from cqrs_cli.following.projections.tables import read_made
from cqrs_cli.kafka.event_tail import EventPartition, ReportProgress, Tail
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.readers import MissingError

#: Maximum delay in seconds before a batch is retried, and delay between two attempts to reach a database.
_AGAIN = 0.05
_AWAY = 1.0

#: Seconds between two checks of the barrier of a partition that was added by a repartitioning.
_HELD = 0.5


class Projector:
    """Projects one partition until it is stopped or reaches its target."""

    def __init__(
        self,
        plan: ProjectionPlan,
        source: EventPartition,
        loaded: LoadedProjection,
        engine: Engine,
        open_tail: Callable[[EventPartition, int], Tail],
        stopping: threading.Event,
        note: ReportProgress,
    ) -> None:
        self._plan, self._source, self._loaded, self._engine = plan, source, loaded, engine
        self._open_tail, self._stopping, self._note = open_tail, stopping, note
        self._barrier = ParentBarrier(plan, source)
        self._target = None if plan.targets is None else plan.targets[source]
        self._aggregate = loaded.aggregates[source.aggregate]
        self._project: Callable[[Any, Sequence[Recorded[Any]]], None] = loaded.projection.project
        self._events = 0
        self._away_since: float | None = None
        self._is_held = False
        self.result: ProjectorResult | None = None

    def run(self) -> None:
        """Project, and set `result` at the end."""
        error: CqrsError | None = None
        began = time.time()
        try:
            self._work()
        except CqrsError as known:
            error = known
        except Exception as bug:
            error = CqrsError(f"{self._place()}: {type(bug).__name__}: {words(bug)}", "see the log")
        self.result = ProjectorResult(self._source, self._events, began, time.time(), error)

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                position = own_position(self._engine, self._plan, self._source)
                if position == 0 and not self._may_begin():
                    continue
                tail = self._open_tail(self._source, position)
                try:
                    self._follow(tail, position)
                finally:
                    tail.close()
                return
            except MovedError:
                continue  # the next `own_position` confirms the owner or raises TakenOverError
            except (UnavailableError, MissingError) as error:
                # A deleted topic causes an error when the topic is opened again.
                self._wait(error.message)
            except SQLAlchemyError as error:
                self._recover(error)

    def _may_begin(self) -> bool:
        """Return True if no earlier events in other partitions are missing; else wait a little and return False."""
        if self._target == 0 or self._barrier.has_opened(self._engine):
            return True
        if not self._is_held:
            self._is_held = True
            self._note(f"{self._place()}: waits for the partition that had its keys")
        self._stopping.wait(_HELD)
        return False

    def _follow(self, tail: Tail, position: int) -> None:
        reached, looked = position, time.monotonic()
        while not self._stopping.is_set():
            if self._target is not None and reached >= self._target:
                break
            records, reached = tail.poll(self._plan.batch)
            if records:
                self._write(records, position, reached)
                position, looked = reached, time.monotonic()
            elif reached > position:  # skip offsets without an event, such as transaction markers
                self._commit([], position, reached)
                position = reached
            elif time.monotonic() - looked > self._plan.idle_check:
                looked = time.monotonic()
                if own_position(self._engine, self._plan, self._source) != position:
                    raise MovedError

    def _write(self, records: list[Record], before: int, after: int) -> None:
        events = [event for event in map(self._read, records) if type(event.event) in self._loaded.events]
        try:
            self._commit(events, before, after)
        except (MovedError, CqrsError):
            raise
        except Exception as error:
            if remedy(error) != "none":
                raise
            self._write_singly(events, before, after)

    def _write_singly(self, events: list[Recorded[Event]], before: int, after: int) -> None:
        """Write each event in its own transaction: this finds the failing event, and commits all events before it."""
        for event in events:
            try:
                self._commit([event], before, event.offset + 1)
            except (MovedError, CqrsError):
                raise
            except Exception as error:
                if remedy(error) != "none":
                    raise
                self._check_tables()
                raise self._refusal(event, error) from self._aggregate.shown(error)
            before = event.offset + 1
        if before < after:
            self._commit([], before, after)

    def _commit(self, events: list[Recorded[Event]], before: int, after: int) -> None:
        """Write a batch in one transaction: first the position, then the rows."""
        with self._engine.begin() as db:
            move_position(db, self._plan, self._source, before, after)
            if before == 0 and not self._barrier.is_open(db):
                raise MovedError
            if events:
                with transaction_kept(db):
                    self._project(db, events)
        self._events += len(events)
        if self._away_since is not None:
            self._note(f"{self._place()}: goes on")
        self._away_since = None

    def _read(self, record: Record) -> Recorded[Event]:
        source = self._source
        try:
            return record_event(self._aggregate, record.value, source.topic, source.partition, record.offset)
        except FoldError as error:
            raise record_fault(
                source.aggregate, "events", source.topic, source.partition, record.offset, error
            ) from error

    def _refusal(self, event: Recorded[Event], error: Exception) -> CqrsError:
        kind, why = self._aggregate.type_of(event.event), self._aggregate.raised(error, PACKAGE)
        if isinstance(error, SQLAlchemyError) and not self._aggregate.has_personal_fields:
            why = f"{why.partition(': ')[0]}: {type(error).__name__}: {words(error)}"
        return CqrsError(
            f"projection {self._plan.name} raised on {kind} {event.topic}:{event.partition}@{event.offset}"
            f" ({event.aggregate_id!r}, version {event.version}): {' '.join(why.split())}",
            "correct it and start again: all before it is written, nothing of it",
        )

    def _check_tables(self) -> None:
        """Raise an error if another run owns the tables or the tables were changed, which explains most errors."""
        own_position(self._engine, self._plan, self._source)
        with reading(self._engine).connect() as connection:
            made = read_made(connection, self._plan.name)
            if made is not None:
                check_columns(connection, self._plan.name, made.tables)

    def _recover(self, error: SQLAlchemyError) -> None:
        """Wait before the batch is retried; raises an error if a retry does not help."""
        match remedy(error):
            case "again":
                self._stopping.wait(random.uniform(0, _AGAIN))
            case "wait":
                self._engine.dispose()
                self._wait(f"no answer from {shown(self._plan.place)} ({words(error)})")
            case _:
                self._check_tables()
                said = CqrsError(f"{self._place()}: {words(error)}", "see what the database says")
                raise said from self._aggregate.shown(error)

    def _wait(self, problem: str) -> None:
        """Wait a little for an unavailable service; raises `UnavailableError` after the plan's timeout (`patience`)."""
        now = time.monotonic()
        if self._away_since is None:
            self._note(f"{self._place()}: {problem}; still trying")
            self._away_since = now
        patience = self._plan.patience
        if patience is not None and now - self._away_since > patience:
            raise UnavailableError(
                f"{self._place()}: {problem}, for {patience:g} s",
                "start it again when that is there: what was written stays",
            ) from None  # SQLAlchemy's errors contain row values
        self._stopping.wait(_AWAY)

    def _place(self) -> str:
        return f"projection {self._plan.name}, {self._source.topic} partition {self._source.partition}"
