"""The loop between a log and a sink: poll, work and commit, until the end offset is reached or the loop is stopped."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from cqrs_cli.core.messages.record import Record


class Sink(Protocol):
    """Where the results of a loop go, together with its position: topics of Kafka, or the tables of a database."""

    check_interval: float  # seconds without records after which `check_owner` is called

    @property
    def offset(self) -> int | None:
        """The stored position. All records before it are complete."""

    @property
    def limit(self) -> int:
        """The maximal number of records in the next batch."""

    def admit_batch(self, position: int, first_offset: int) -> AbstractContextManager[None]:
        """Admit a batch for the `with` block; `position`: the offset up to which all records are complete."""

    def check_owner(self, position: int) -> None:
        """Raise an error if another owner has taken the partition over; store the position if it has changed."""

    def commit_position(self, offset: int) -> None:
        """Store a position, without results."""


class Loop(ABC):
    """The loop of one owner. `position`: the offset of the next record. `end_offset`: the offset at which the loop
    ends; None if it runs until it is stopped.
    """

    def __init__(self, session: Sink, position: int, end_offset: int | None) -> None:
        self.session, self.position, self.end_offset = session, position, end_offset
        self.remaining: list[Record] = []  # polled records that the last batch left out
        self.is_stopping: Callable[[], bool] = lambda: False

    @property
    def completed(self) -> int:
        """The offset before which the results of all records are stored. Only this offset is ever stored as position.

        A loop that completes records later, or in another order than the log's, overrides this property with the offset
        of the first incomplete record.
        """
        return self.position

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Work until the end offset is reached or `is_stopping()` returns True."""
        self.is_stopping, session = is_stopping, self.session
        self.start_polling()
        checked_at = time.monotonic()
        while self.is_running():
            self.run_due_work()
            if records := self.poll():
                with session.admit_batch(self.completed, records[0].offset):
                    self.process_batch(records)
            else:
                self.run_idle_work()
                if time.monotonic() - checked_at < session.check_interval:
                    continue
                session.check_owner(self.completed)
            checked_at = time.monotonic()
        self.run_idle_work()
        if self.completed != session.offset:
            session.commit_position(self.completed)

    def is_running(self) -> bool:
        """Return False once the loop is stopped, or has reached its end offset."""
        return not self.is_stopping() and (self.end_offset is None or self.completed < self.end_offset)

    def start_polling(self) -> None:
        """Prepare to poll from `position`."""
        return

    def run_due_work(self) -> None:
        """Do work that is due by time, such as the resubmission of deferred commands."""
        return

    @abstractmethod
    def poll(self) -> list[Record]:
        """Return a batch of records; empty if no record arrived in time."""

    @abstractmethod
    def process_batch(self, records: list[Record]) -> None:
        """Process as many records of a batch as fit into one transaction; advances `position`. The records may be
        complete later.
        """

    def run_idle_work(self) -> None:
        """Do work that may wait until the log has no record, or until the loop ends."""
        return
