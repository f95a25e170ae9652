"""Projects one partition: reads its events, and writes them in batches, each one transaction with its position.

Whatever goes wrong with a batch, the position is read again from the database and the work goes on from there. So a
commit whose answer was lost, a restored backup and a killed process are one case.

There is no supervisor with claims and fences here, as owners of commands and processes need. Kafka commits what a stale
writer sends until a newer one fences it. Here the position lies in the same transaction as the rows, and its row names
the run that may move it: a stale projector finds no such row, so it writes nothing. Nor is there anything of an earlier
run to settle: a database ends an open transaction with its session.
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
from cqrs_cli.following.projections.barrier import Barrier
from cqrs_cli.following.projections.database import reading, shown, transaction_kept
from cqrs_cli.following.projections.definition import check_columns
from cqrs_cli.following.projections.failures import remedy, words
from cqrs_cli.following.projections.load import PACKAGE, LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import MovedError, move_position, own_position
from cqrs_cli.following.projections.tables import read_made
from cqrs_cli.kafka.event_tail import EventPartition, Tail, Tell
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.readers import MissingError

#: Seconds before a batch is tried again, at most, and between two attempts to reach a database.
_AGAIN = 0.05
_AWAY = 1.0

#: Seconds between two looks whether a partition that came by a growth may begin.
_HELD = 0.5


class Projector:
    """Projects one partition until it is told to stop, or its target is reached."""

    def __init__(
        self,
        plan: ProjectionPlan,
        source: EventPartition,
        loaded: LoadedProjection,
        engine: Engine,
        open_tail: Callable[[EventPartition, int], Tail],
        stopping: threading.Event,
        note: Tell,
    ) -> None:
        self._plan, self._source, self._loaded, self._engine = plan, source, loaded, engine
        self._open_tail, self._stopping, self._note = open_tail, stopping, note
        self._barrier = Barrier(plan, source)
        self._target = None if plan.targets is None else plan.targets[source]
        self._aggregate = loaded.aggregates[source.aggregate]
        self._project: Callable[[Any, Sequence[Recorded[Any]]], None] = loaded.projection.project
        self._events = 0
        self._away_since: float | None = None
        self._is_held = False
        self.result: ProjectorResult | None = None

    def run(self) -> None:
        """Work; `result` says how it ended."""
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
                continue  # mine still, or `own_position` says whose
            except (
                UnavailableError,
                MissingError,
            ) as error:  # a topic that is gone is found when it is read again
                self._wait(error.message)
            except SQLAlchemyError as error:
                self._recover(error)

    def _may_begin(self) -> bool:
        """False after a while if events of other partitions come first."""
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
            elif reached > position:  # past what is no event: markers of transactions
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
        """One event a transaction, so that the one which cannot be projected is found, and no other waits for it."""
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
        """The batch: first the position, then the rows, in one transaction."""
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
        """Raise an error if the tables are another run's, or not as they were made, which explains most errors."""
        own_position(self._engine, self._plan, self._source)
        with reading(self._engine).connect() as connection:
            made = read_made(connection, self._plan.name)
            if made is not None:
                check_columns(connection, self._plan.name, made.tables)

    def _recover(self, error: SQLAlchemyError) -> None:
        """Wait before the batch is tried again; raise what waiting cannot remedy."""
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
        """Wait a little for what is away; raises `UnavailableError` once that lasts longer than the plan's patience."""
        now = time.monotonic()
        if self._away_since is None:
            self._note(f"{self._place()}: {problem}; still trying")
            self._away_since = now
        patience = self._plan.patience
        if patience is not None and now - self._away_since > patience:
            raise UnavailableError(
                f"{self._place()}: {problem}, for {patience:g} s",
                "start it again when that is there: what was written stays",
            ) from None  # SQLAlchemy's errors hold the values of the rows
        self._stopping.wait(_AWAY)

    def _place(self) -> str:
        return f"projection {self._plan.name}, {self._source.topic} partition {self._source.partition}"
