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

from cqrs_cli.errors import ContradictionError, CqrsError, PayloadUnavailableError
from cqrs_cli.kafka.clients import is_client_unusable, is_denied
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import MissingPartitionError, StalledError
from cqrs_cli.observer import message_listener, observing, reached
from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.committed_claims import ClaimSlot, poll_claims
from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.signals import HANDLED_ERRORS, LaterClaim, OffsetPending, UnwritableBatch
from cqrs_cli.ownership.standby import wait_at_slot
from cqrs_cli.ownership.timing import ErrorDuration, Timing
from cqrs_cli.telemetry.datagrams import Address, DatagramSender
from cqrs_cli.telemetry.status_file import StatusFile


class Owner(Protocol):
    """One owner of a partition. It is never repaired: any error ends it, and its session closes its clients."""

    @property
    def session(self) -> Session[Any]: ...

    def run_steps(self, is_stopping: Callable[[], bool]) -> None:
        """Run all steps in order; returns when the loop has reached its end offset, or `is_stopping()` returns True."""


class Supervisor(MonitoredThread):
    """Runs the owners of one partition, a new one after each error.

    The abstract methods are the differences between deciding and process managers. A projection needs no supervisor: it
    writes its position in one transaction with its rows, so the database decides who may write
    (`following.projections.projector`).
    """

    #: The errors after which `_handle` decides whether another owner starts.
    handled_errors: ClassVar[tuple[type[BaseException], ...]] = HANDLED_ERRORS

    def __init__(
        self,
        connection: Cluster,
        slot: ClaimSlot,
        label: str,
        folder: Path,
        own_claim: Claim,
        timing: Timing,
        stopping: threading.Event,
        driver: Address | None,
    ) -> None:
        super().__init__()
        self.connection, self.slot, self.label, self.folder = connection, slot, label, folder
        self.own_claim, self.timing, self.stopping = own_claim, timing, stopping
        self.sender = None if driver is None else DatagramSender(driver)
        self.listeners = (message_listener(self.add_note), StatusFile(folder).listener)
        self.batch_limit = timing.batch_limit
        self.owner: Owner | None = None
        self.restart_delay = timing.first_restart_delay
        self._reset_error_durations()

    def run(self) -> None:
        """Run the thread. Every error becomes part of its result."""
        with observing(*self.listeners):
            try:
                self.serve()
            except CqrsError as error:
                self.error = error
            # A thread that ended without a result would leave the partition without an owner.
            except BaseException as bug:
                traceback.print_exc()
                message = f"{self.label}: {type(bug).__name__}: {bug}"
                self.error = CqrsError(message, "see the log for the traceback")
            self.thread_ended()
            reached("owner.ended")

    def serve(self) -> None:
        """Run owners until an owner ends without an error. Raises the error that ends the run."""
        is_finished = False
        while not is_finished and self._wait_for_takeover():
            try:
                self._restart_owners()
                is_finished = True
            except LaterClaim as error:
                later_claim = error.committed_claim
                if later_claim is None or error.judgement is not Judgement.LATER_RUN:
                    is_finished = True
                elif self.timing.standby_timeout is None:
                    raise self.explain_takeover(later_claim) from error

    def _wait_for_takeover(self) -> bool:
        """In standby mode, wait until this run may take over; return False if the run is stopped before. In any other
        mode return True at once.
        """
        if (standby_timeout := self.timing.standby_timeout) is None:
            return True
        claim = wait_at_slot(
            self.connection, self.slot, self.own_claim, standby_timeout, self, self.may_ignore_claim
        )
        self.own_claim = claim or self.own_claim
        return claim is not None

    def _restart_owners(self) -> None:
        while not self.stopping.is_set() and not self._run_owner():
            reached("owner.restarting")
            self._pause(self.restart_delay * random.uniform(0.5, 1.5))
            self.restart_delay = min(self.restart_delay * 2, self.timing.max_restart_delay)

    def _run_owner(self) -> bool:
        """Run one owner. Return True if it ended without an error, False if another owner is to start."""
        with self.new_owner() as owner:
            self.owner = owner
            self.session = session = owner.session
            try:
                owner.run_steps(self.stopping.is_set)
                return True
            except self.handled_errors as caught:
                error = caught
            finally:
                self.own_claim, self.batch_limit = session.current_claim(), session.batch_limit
            self._handle(error, session)
            if session.has_committed_batch:
                self.restart_delay = (
                    self.timing.fenced_pause if is_client_unusable(error) else self.timing.first_restart_delay
                )
                self._reset_error_durations()
            del error  # the traceback references this frame, and so the owner with its clients
        return False

    def _handle(self, error: BaseException, session: Session[Any]) -> None:
        """Return if another owner is to start; raise the error that ends the run."""
        if not isinstance(error, ContradictionError):
            # The brokers may have failed, and failed brokers can show an inconsistency: start the measurement again.
            self.inconsistency_duration = ErrorDuration(self.timing.error_reset_after)
        match error:
            case MemoryError() | OSError() | SystemExit():
                self.batch_limit = max(1, self.batch_limit // 2)
                if self.exhaustion_duration.persists_for(self.timing.inconsistency_timeout):
                    raise error
            case UnwritableBatch():
                if error.size == 1 and not error.late:
                    self.handle_unwritable_record(error)
                self.batch_limit = max(1, error.size // 2)
                if error.size > 1:
                    self.restart_delay = self.timing.first_restart_delay
            case ContradictionError():
                if self._is_inconsistency_real(session) and (
                    session.is_recovered or self.is_permanent(error) or self._inconsistency_persists(session)
                ):
                    raise error
            case MissingPartitionError():
                reached("owner.blocked", reason=str(error))
                if self.missing_duration.persists_for(self.timing.missing_timeout):
                    raise self.explain_missing(error) from error
            case PayloadUnavailableError():
                reached("owner.blocked", reason=str(error))
                self.add_note(f"{self.label}: {error}; still trying")
            case OffsetPending():
                self.resolve_in_doubt(offset_pending=True)
            case StalledError():
                if not self.resolve_in_doubt(offset_pending=False):
                    self.handle_stall(error)
            case KafkaException() if is_denied(error):
                raise self.explain_denial() from error
            case _:
                self.handle_other(error, session)
        if session.is_recovered:
            self.check_logs()
        self.report(error)

    def _reset_error_durations(self) -> None:
        """Restart the measurement of how long errors persist."""
        self.missing_duration, self.inconsistency_duration, self.exhaustion_duration = (
            ErrorDuration(self.timing.error_reset_after) for _ in range(3)
        )

    def _pause(self, seconds: float) -> None:
        """Pause; raises `LaterClaim` as soon as a later claim is committed."""
        for claim in poll_claims(
            seconds, self.connection, self.slot, self.timing.pause_claim_interval, self.stopping
        ):
            if (judgement := judge(self.own_claim, claim)).must_return:
                raise LaterClaim(judgement, claim)

    def _is_inconsistency_real(self, session: Session[Any]) -> bool:
        """Return True if an inconsistency is real, and not the result of a successor's writes."""
        try:
            return session.is_inconsistency_real(session.read_committed_claim())
        except KafkaException:
            return False

    def _inconsistency_persists(self, session: Session[Any]) -> bool:
        """Return True if an inconsistency has persisted long enough, without any other error in between."""
        timing, in_sync = self.timing, session.are_replicas_in_sync()
        timeout = timing.inconsistency_timeout if in_sync else timing.out_of_sync_timeout
        return self.inconsistency_duration.persists_for(timeout)

    @abstractmethod
    def new_owner(self) -> AbstractContextManager[Owner]:
        """Return a new owner."""

    def thread_ended(self) -> None:
        """Record that the thread has ended, with or without an error."""
        return

    def prepare_takeover(self, claim: Claim) -> None:
        """Prepare for a takeover while the run of this claim is active; called repeatedly."""
        self.add_note(f"{self.label}: in standby mode, run {claim.run} is active")

    def may_ignore_claim(self, claim: Claim | None) -> bool:
        """Return True if a standby run splits the partition, so that it need not wait for the run of this claim."""
        return False

    def is_ready(self) -> bool:
        """Return True if a standby run can take over; otherwise report the reason."""
        return True

    @abstractmethod
    def resolve_in_doubt(self, offset_pending: bool) -> bool:
        """Resolve a transaction of the partition's writer that Kafka has left open; return False if there is none."""

    def handle_stall(self, error: StalledError) -> None:
        """Raise the error that ends the run, unless the owner may wait for another client's open transaction."""
        if not error.is_temporary:
            raise error

    @abstractmethod
    def handle_unwritable_record(self, error: UnwritableBatch) -> None:
        """Record that a single record cannot be committed. Raises the error that ends the run if there is no remedy."""

    def is_permanent(self, error: ContradictionError) -> bool:
        """Return True for an inconsistency that waiting cannot resolve."""
        return False

    def handle_other(self, error: BaseException, session: Session[Any]) -> None:
        """Handle an error that `_handle` does not know: return if another owner is to start, or raise."""
        return

    def check_logs(self) -> None:
        """Raise `ContradictionError` if a log was recreated while it was read, and no later step would detect it."""
        return

    def explain_missing(self, error: MissingPartitionError) -> CqrsError:
        """Return the error that ends the run after a partition was missing for `Timing.missing_timeout`."""
        return error

    @abstractmethod
    def explain_denial(self) -> CqrsError:
        """Return the error that names the missing ACLs."""

    @abstractmethod
    def explain_takeover(self, later: Claim) -> CqrsError:
        """Return the error that ends a run when a later run has claimed this partition."""
