"""The last step of an owner: poll, work and commit, until the target is reached or the owner is stopped."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.session import Session


class Loop(ABC):
    """The loop of one owner. `position`: the offset of the next record; `target`: the offset at which the loop ends,
    None if it runs until it is stopped.
    """

    def __init__(self, session: Session[Any], position: int, target: int | None) -> None:
        self.session, self.position, self.target = session, position, target
        self.remaining: list[Record] = []  # polled records that the last batch left out
        self.stopping: Callable[[], bool] = lambda: False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Work until the target is reached or `stopping()` returns True."""
        self.stopping, session, timing = stopping, self.session, self.session.timing
        self.start_polling()
        claim_checked_at = offset_committed_at = time.monotonic()
        while self.is_running():
            self.run_due_work()
            if records := self.poll():
                with session.admit_batch(self.position, records[0].offset):
                    self.process_batch(records)
                claim_checked_at = time.monotonic()
                continue
            self.run_idle_work()
            if (now := time.monotonic()) - claim_checked_at >= timing.idle_check_interval:
                session.check_claim()
                must_refresh = now - offset_committed_at > timing.offset_refresh_interval
                if session.clear_suspects(self.position) or must_refresh or self.position != session.offset:
                    session.commit_position(self.position)
                    offset_committed_at = now
                claim_checked_at = now
        self.run_idle_work()
        if self.position != session.offset:
            session.commit_position(self.position)

    def is_running(self) -> bool:
        """Return False once the loop is stopped, or has reached its target."""
        return not self.stopping() and (self.target is None or self.position < self.target)

    @abstractmethod
    def start_polling(self) -> None:
        """Prepare to poll from `position`."""

    def run_due_work(self) -> None:
        """Do work that is due by time, such as the resubmission of deferred commands."""
        return

    @abstractmethod
    def poll(self) -> list[Record]:
        """Return a batch of records; empty if no record arrived in time."""

    @abstractmethod
    def process_batch(self, records: list[Record]) -> None:
        """Process and commit as many records of a batch as fit into one transaction; advances `position`."""

    def run_idle_work(self) -> None:
        """Do work that may wait until the log has no record, or until the loop ends."""
        return
