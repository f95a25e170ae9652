"""The thread that serves one partition of commands: it opens the store, and runs one owner after another on it."""

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import DecisionInterrupted
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding import errors
from cqrs_cli.deciding.catch_up import CatchUp, catch_up_fully, fold_unfenced
from cqrs_cli.deciding.in_doubt import resolve_in_doubt
from cqrs_cli.deciding.key_session import check_no_unresolved_keys, open_owner_keys
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.owner import DecidingOwner
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.pending_partitions import can_take_over_to_split, wait_for_pending_partitions
from cqrs_cli.deciding.plan import KEYS_SUFFIX, OwnerResult, Partition, Plan
from cqrs_cli.deciding.recover import is_permanent
from cqrs_cli.deciding.report import compose_report, encode_report
from cqrs_cli.deciding.retire import replace_claim
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.poison_detection.attempts import Attempts
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.signals import HANDLED_ERRORS, UnwritableBatch
from cqrs_cli.ownership.supervisor import Supervisor
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.state.errors import AheadError, CorruptError
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.open_store import OpenStore, open_store
from cqrs_cli.state.store import NotOwnerError, Store


class DecidingSupervisor(Supervisor):
    """Supervises owners that decide. It also handles errors of the aggregate's code and of the store."""

    noun, activity = "command", "is being decided"
    handled_errors = (*HANDLED_ERRORS, DecisionInterrupted, NotOwnerError)

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        aggregate: Aggregate,
        attempt: int,
        stopping: threading.Event,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.plan, self.partition, self.aggregate = plan, partition, aggregate
        self.budget = budget or MemoryBudget(plan.store_limit)
        self._pool = ConsumerPool(plan.connection, plan.claim_slot(partition).group)
        self.log = replace(plan.log(partition), pool=self._pool)
        label = f"{partition.aggregate} partition {partition.number}"
        own_claim, shard = plan.claim(partition, attempt), plan.shard_folder(partition)
        connection, claim_slot = plan.connection, plan.claim_slot(partition)
        super().__init__(connection, claim_slot, label, shard, own_claim, plan.timing, stopping, plan.reports)
        self._catch_up = CatchUp(self._fold_unfenced)
        self._unreadable_event_error: ContradictionError | None = None
        # The offsets of commands that fail without being read.
        force_failed = plan.force_failed.get(partition, frozenset())
        self.attempts = Attempts(self.log.log_name("commands"), force_failed, plan.worker_log)
        self.measures = Measures()
        self.listeners = (*self.listeners, self.measures.listener)
        self.store: Store | None = None
        self.keys: OwnerKeys | None = None
        self._report_count = 0  # the number of reports so far

    @property
    def result(self) -> OwnerResult:
        return OwnerResult(self.partition, self.error, tuple(self.notes), counts=self.own_claim.counts)

    def due_reports(self) -> list[bytes]:
        self._report_count += 1
        order = (self.own_claim.submission, self.own_claim.attempt, self._report_count)
        shard_bytes = self._shard_bytes()
        return [encode_report(compose_report(self.partition, order, self.measures, shard_bytes))]

    def _shard_bytes(self) -> int:
        """Return the bytes of the shard on disk, or of the store in memory."""
        if isinstance(self.store, MemoryStore):
            return self.store.size
        try:
            return sum(file.stat().st_blocks * 512 for file in self.folder.iterdir())
        except OSError:  # the shard is being quarantined
            return 0

    def open_store(self) -> OpenStore:
        """Open the partition's existing store, or create an empty store. Raises the errors of `open_shard`."""
        identity = self.plan.identity(self.partition, self.aggregate)
        path = None if self.plan.store == "memory" else self.folder
        return open_store(path, identity, self.budget, self.timing.shard_limits)

    def serve(self) -> None:
        """Open the store and run owners. Replace a damaged store by a new store; raise the error if the new store is
        damaged, too.
        """
        while True:
            reached("owner.step", step="open")
            open_result = self.open_store()
            with closing(open_result.store) as store:
                self.store = store
                try:
                    return self._serve(store)
                except CorruptError as error:
                    if open_result.is_new and not isinstance(error, AheadError):
                        raise  # a new shard is damaged: the disk must be damaged
                    self.add_note(f"{self.label}: {error.message}")
                    store.close_as_damaged()

    def _serve(self, store: Store) -> None:
        """Open the data keys, catch the shard up without a fence, then run owners."""
        path = None if self.plan.store == "memory" else self.folder.with_name(self.folder.name + KEYS_SUFFIX)
        with open_owner_keys(self.plan, self.partition, self.aggregate, path) as self.keys:
            try:
                check_no_unresolved_keys(store, self.log.log_name("commands"))
                reached("owner.step", step="warm")
                catch_up_fully(self._catch_up.fold)
                if store.code_digest() not in ("", self.aggregate.fold_digest):
                    self.add_note(errors.explain_changed_code(self.aggregate))
                super().serve()
            except CorruptError:
                if self.keys is not None:
                    self.keys.clear_key_store()  # its keys may be from a lost history, like the shard
                raise

    def _fold_unfenced(self) -> None:
        """Step 0 of docs/owner.md: fold most of the log while the previous owner still decides."""
        assert self.store is not None
        self._unreadable_event_error = fold_unfenced(
            self.plan, self.partition, self.log, self.aggregate, self.store, self.keys
        )

    def new_owner(self) -> DecidingOwner:
        assert self.store is not None
        return DecidingOwner(
            self.plan,
            self.partition,
            self.aggregate,
            self.store,
            self.keys,
            self.own_claim,
            self.batch_limit,
            self.attempts,
            self.stale_offset_duration,
            self._catch_up,
            self._pool,
        )

    def _restart_owners(self) -> None:
        own_claim, catch_up = self.own_claim, self._catch_up
        wait_for_pending_partitions(self.plan, self.partition, own_claim, self.stopping, catch_up, self._pool)
        super()._restart_owners()

    def thread_ended(self) -> None:
        self._pool.close()

    def stuck_reason(self, running_for: float) -> str:
        store = self.store
        if (
            (reason := super().stuck_reason(running_for))
            or store is None
            or min(running_for, store.seconds_waiting_for_lock) <= self.timing.stuck_shard_timeout
        ):
            return reason
        return "a stopped process holds the shard in the middle of a change"

    def prepare_takeover(self, claim: Claim) -> None:
        """Fold the visible log repeatedly, so that the shard is nearly up to date at the takeover."""
        super().prepare_takeover(claim)
        self._catch_up()
        if self.is_ready():
            reached("owner.step", step="standby")

    def may_ignore_claim(self, claim: Claim | None) -> bool:
        return can_take_over_to_split(self.plan, self.partition, self.own_claim, claim, self._pool)

    def is_ready(self) -> bool:
        """Return True if this run's code could read all events at the last fold. The active run may have newer code,
        and write events that this run cannot read.

        This method does not read the log, because reading takes time, and another standby run could take over in that
        time. This run has already decided to take over, so it would replace the other run at once.
        """
        if self._unreadable_event_error is not None:
            reached("owner.step", step="warm")
            self.add_note(f"{self.label}: this standby run cannot take over: {self._unreadable_event_error}")
        return self._unreadable_event_error is None

    def current_record(self) -> Record | None:
        owner = self.owner
        batch = owner.session.batch if isinstance(owner, DecidingOwner) else None
        return None if batch is None else batch.current_record

    def replace_claim(self, change: Callable[[int, Claim], Claim | None]) -> None:
        replace_claim(self.plan, self.partition, change)

    def resolve_in_doubt(self, offset_pending: bool) -> bool:
        keys_partition = None if self.keys is None else self.keys.partition
        return resolve_in_doubt(self.plan, self.partition, self.log, offset_pending, keys_partition)

    def handle_other(self, error: BaseException, session: Session[Any]) -> None:
        """After a process error in the aggregate's code, let the next owner decide the commands before the interrupted
        command, then this command alone. Only an error while a command is decided alone counts as its failed attempt.
        """
        if not isinstance(error, DecisionInterrupted):
            return
        self.batch_limit = max(1, error.decided_count)
        gc.collect()  # the process may be short of memory
        if session.limit > 1:
            self.restart_delay = self.timing.first_restart_delay
        else:
            self.attempts.record_failed_alone(error.offset, str(error))

    def handle_unwritable_record(self, error: UnwritableBatch) -> None:
        """Let the next owner write the record's dead letter without the record's bytes. With them the dead letter is
        larger than the broker accepts: a small compressed record may have any size after decompression.
        """
        if not error.undecidable or error.offset in self.attempts.force_failed:
            raise errors.explain_undecidable(self.log, error) from error
        self.attempts.force_fail(error.offset, str(error))

    def is_permanent(self, error: ContradictionError) -> bool:
        return is_permanent(error)

    def explain_denial(self) -> CqrsError:
        return errors.explain_denial(self.log, self.aggregate.has_personal_fields)

    def explain_takeover(self, later: Claim) -> CqrsError:
        return errors.explain_takeover(later)

    def _reset_error_durations(self) -> None:
        super()._reset_error_durations()
        # For how long the owners have read an old offset of the group.
        self.stale_offset_duration = ErrorDuration(self.timing.error_reset_after)
