"""The thread of a partition: one owner after another, until an owner ends by itself or an error ends the run."""

import random
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from confluent_kafka import KafkaException

from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.clients import is_broken, is_denied
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import MissingError, StalledError
from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.committed_claims import ClaimSlot, claims_for
from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.signals import JUDGED, BatchTooLarge, LaterClaim, OffsetPending
from cqrs_cli.ownership.standby import await_seat
from cqrs_cli.ownership.timing import ErrorDuration, Timing
from cqrs_cli.payloads.address import PayloadUnavailableError
from cqrs_cli.telemetry.datagrams import Address


class Owner(Protocol):
    """One owner of a partition. It is never repaired: any error ends it, and its session closes its clients."""

    @property
    def session(self) -> Session[Any]: ...

    def work(self, stopping: Callable[[], bool]) -> None:
        """Run all steps in order; returns when the target is reached or `stopping()` returns True."""


class Supervisor(MonitoredThread):
    """Runs the owners of one partition, a new one after each error.

    The abstract methods are the differences between deciding and process managers. A projection needs no supervisor:
    its position is part of the transaction of its rows, so the database decides who may write
    (`following.projections.projector`).
    """

    #: Errors after which it decides whether another owner starts.
    judged: ClassVar[tuple[type[BaseException], ...]] = JUDGED

    def __init__(
        self,
        connection: Cluster,
        seat: ClaimSlot,
        place: str,
        folder: Path,
        mine: Claim,
        timing: Timing,
        stopping: threading.Event,
        driver: Address | None,
    ) -> None:
        super().__init__()
        self.connection, self.seat, self.place, self.folder = connection, seat, place, folder
        self.mine, self.timing, self.stopping, self.driver = mine, timing, stopping, driver
        self.batch_limit = timing.batch_limit
        self.owner: Owner | None = None
        self.pause = timing.first_pause
        self._forget()

    def run(self) -> None:
        """Run the thread. Every error becomes part of its result."""
        try:
            self.serve()
        except CqrsError as known:
            self.error = known
        # A thread that ended without a result would leave the partition without an owner.
        except BaseException as bug:
            traceback.print_exc()
            what = f"{self.place}: {type(bug).__name__}: {bug}"
            self.error = CqrsError(what, "see the log for the traceback")
        self._blocked = ("", None)
        self.end()

    def serve(self) -> None:
        """Run owners until one ends by itself. Raises the error that ends the run."""
        ended = False
        while not ended and self._has_turn():
            try:
                self._keep_owners()
                ended = True
            except LaterClaim as ending:
                later = ending.committed_claim
                if later is None or ending.judgement is not Judgement.TAKEN_OVER:
                    ended = True
                elif self.timing.standby_timeout is None:
                    raise self.explain_takeover(later) from ending

    def _has_turn(self) -> bool:
        """Return True at once unless this is a standby run. A standby run waits until it may take over; False if it is
        stopped first.
        """
        if (after := self.timing.standby_timeout) is None:
            return True
        turn = await_seat(self.connection, self.seat, self.mine, after, self)
        self.mine = turn or self.mine
        return turn is not None

    def _keep_owners(self) -> None:
        while not self.stopping.is_set() and not self._is_done():
            self.pausing()
            self._give_way(self.pause * random.uniform(0.5, 1.5))
            self.pause = min(self.pause * 2, self.timing.longest_pause)

    def _is_done(self) -> bool:
        """Run one owner. Return True if it ended by itself, False if another owner is to start."""
        with self.begin() as owner:
            self.owner = owner
            self.session = session = owner.session
            try:
                owner.work(self.stopping.is_set)
                return True
            except self.judged as caught:
                error = caught
            finally:
                self.mine, self.batch_limit = session.present_claim(), session.batch_limit
            self._handle(error, session)
            if session.useful:
                self.pause = self.timing.fenced_pause if is_broken(error) else self.timing.first_pause
                self._forget()
            del error  # its traceback references this frame, and so the owner with its clients
        return False

    def _handle(self, error: BaseException, session: Session[Any]) -> None:
        """Return if another owner is to start; raise the error that ends the run."""
        if not isinstance(error, ContradictionError):
            self.contradicted = ErrorDuration(
                self.timing.forgotten
            )  # the answers of failing brokers prove nothing
        match error:
            case MemoryError() | OSError() | SystemExit():
                self.batch_limit = max(1, self.batch_limit // 2)
                if self.exhausted.lasts(self.timing.contradicted):
                    raise error
            case BatchTooLarge():
                if error.size == 1 and not error.late:
                    self.blame(error)
                self.batch_limit = max(1, error.size // 2)
                if error.size > 1:
                    self.pause = self.timing.first_pause
            case ContradictionError():
                if self._is_believable(session) and (
                    session.recovered or self.will_last(error) or self._lasts(session)
                ):
                    raise error
            case MissingError():
                self.block(str(error))
                if self.missing.lasts(self.timing.missing):
                    raise self.explain_missing(error) from error
            case PayloadUnavailableError():
                self.block(str(error))
                self.note(f"{self.place}: {error}; still trying")
            case OffsetPending():
                self.settle(pending=True)
            case StalledError():
                if not self.settle(pending=False):
                    self.wait_out(error)
            case KafkaException() if is_denied(error):
                raise self.explain_denial() from error
            case _:
                self.handle_other(error, session)
        if session.recovered:
            self.check_logs()
        self.report(error)

    def _forget(self) -> None:
        """Restart the measurement of how long errors persist."""
        forgotten = self.timing.forgotten
        self.missing, self.contradicted, self.exhausted = (ErrorDuration(forgotten) for _ in range(3))

    def _give_way(self, seconds: float) -> None:
        """Pause; raises `LaterClaim` as soon as a later claim is committed."""
        for claim in claims_for(seconds, self.connection, self.seat, self.timing.claim_check, self.stopping):
            if (judgement := judge(self.mine, claim)).ends:
                raise LaterClaim(judgement, claim)

    def _is_believable(self, session: Session[Any]) -> bool:
        """Return True if an inconsistency is real, and not a successor's work."""
        try:
            return session.believes(session.claim_now())
        except KafkaException:
            return False

    def _lasts(self, session: Session[Any]) -> bool:
        """Return True if an inconsistency has persisted long enough, without any other error in between."""
        settled = session.is_settled()
        return self.contradicted.lasts(self.timing.contradicted if settled else self.timing.out_of_sync)

    @abstractmethod
    def begin(self) -> AbstractContextManager[Owner]:
        """Return a new owner."""

    def pausing(self) -> None:
        """Record that an owner has ended, and that another owner is to start."""
        return

    def end(self) -> None:
        """Record that the thread has ended, with or without an error."""
        return

    def stand_by(self, claim: Claim) -> None:
        """Prepare for a takeover while the run of this claim is active; called repeatedly."""
        self.note(f"{self.place}: standing by, run {claim.run} is at work")

    def is_fit(self) -> bool:
        """Return True if a standby run can take over; otherwise report the reason."""
        return True

    @abstractmethod
    def settle(self, pending: bool) -> bool:
        """Return True if Kafka had left a transaction of the partition's writer open, and it is now resolved."""

    def wait_out(self, error: StalledError) -> None:
        """Raise the error that ends the run, unless the owner may wait for another client's open transaction."""
        raise error

    @abstractmethod
    def blame(self, error: BatchTooLarge) -> None:
        """Record that a single record cannot be committed. Raises the error that ends the run if there is no remedy."""

    def will_last(self, error: ContradictionError) -> bool:
        """Return True for an inconsistency that waiting cannot resolve."""
        return False

    def handle_other(self, error: BaseException, session: Session[Any]) -> None:
        """Handle an error that `_handle` does not know: return if another owner is to start, or raise."""
        return

    def check_logs(self) -> None:
        """Raise `ContradictionError` if a log was recreated while it was read, and no later step would detect it."""
        return

    def explain_missing(self, error: MissingError) -> CqrsError:
        """Return the error that ends the run after a partition was missing for `Timing.missing`."""
        return error

    @abstractmethod
    def explain_denial(self) -> CqrsError:
        """Return the error that names the missing ACLs."""

    @abstractmethod
    def explain_takeover(self, later: Claim) -> CqrsError:
        """Return the error that ends a run when a later run has claimed this partition."""
