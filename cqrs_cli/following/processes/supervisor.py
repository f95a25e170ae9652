"""The thread of a subscription, which runs one owner after another."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any

from confluent_kafka import KafkaException

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError, TakenOverError, UnavailableError
from cqrs_cli.following.processes.errors import missing_acl_error, missing_topic_error
from cqrs_cli.following.processes.in_doubt import resolve_in_doubt_transaction
from cqrs_cli.following.processes.load import LoadedProcess, load_process
from cqrs_cli.following.processes.loop import ReactionContext
from cqrs_cli.following.processes.owner import ReactingOwner
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult, Subscription
from cqrs_cli.following.processes.retire import replace_claim
from cqrs_cli.following.processes.topics import events_topic_identity
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind
from cqrs_cli.kafka.readers import MissingPartitionError, StalledError
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.signals import UnwritableBatch
from cqrs_cli.ownership.supervisor import Supervisor


class ReactingSupervisor(Supervisor):
    """The supervisor of a subscription. It also handles missing commands topics and recreated events topics."""

    noun, activity = "event", "is being reacted to"

    def __init__(
        self,
        plan: ProcessPlan,
        subscription: Subscription,
        loaded: LoadedProcess,
        load: Callable[[str], Aggregate],
        attempt: int,
        stopping: threading.Event,
    ) -> None:
        self.plan, self.subscription = plan, subscription
        composer = loaded.composer(plan.outputs, plan.partitioner, load, plan.connection.payload_codec())
        self.context = ReactionContext(loaded, composer)
        own_claim = plan.claim(subscription, attempt)
        folder = plan.status_folder(subscription)
        connection, claim_slot, timing = plan.connection, plan.claim_slot(subscription), plan.timing
        super().__init__(
            connection, claim_slot, str(subscription), folder, own_claim, timing, stopping, plan.reports
        )
        self.started_at, self.ended_at = time.time(), 0.0

    @property
    def result(self) -> ProcessResult:
        return ProcessResult(
            self.subscription,
            self.error,
            tuple(self.notes),
            events=self.context.reacted_events,
            commands=self.context.sent_commands,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )

    def new_owner(self) -> ReactingOwner:
        return ReactingOwner(self.plan, self.subscription, self.own_claim, self.batch_limit, self.context)

    def thread_ended(self) -> None:
        self.ended_at = time.time()

    def current_record(self) -> Record | None:
        owner = self.owner
        loop = owner.loop if isinstance(owner, ReactingOwner) else None
        return None if loop is None else loop.current_event

    def replace_claim(self, change: Callable[[int, Claim], Claim | None]) -> None:
        replace_claim(self.plan, self.subscription, change)

    def resolve_in_doubt(self, offset_pending: bool) -> bool:
        try:
            return resolve_in_doubt_transaction(self.plan, self.subscription, offset_pending)
        except (UnavailableError, KafkaException):
            return False  # the next owner tries again before it fences

    def handle_stall(self, error: StalledError) -> None:
        """Let the next owner try again: another client's transaction hides the positions, and ends by its timeout."""
        reached("owner.blocked", reason=str(error))

    def handle_unwritable_record(self, error: UnwritableBatch) -> None:
        """Record the event at which the next owner stops the process manager."""
        reason = str(error).partition(" (")[0]
        self.context.rejected_events[error.offset] = f"a topic rejects them: {reason}"

    def handle_other(self, error: BaseException, session: Session[Any]) -> None:
        if isinstance(error, KafkaException):
            if error_kind(error) is ErrorKind.UNKNOWN_PARTITION and self.missing_duration.persists_for(
                self.timing.missing_timeout
            ):
                raise missing_topic_error(self.plan, self.subscription) from error
            error = unreachable_error(self.plan.connection, error)
        if isinstance(error, UnavailableError):
            reached("owner.blocked", reason=str(error))

    def check_logs(self) -> None:
        with suppress(UnavailableError):
            events_topic_identity(self.plan, [self.subscription]).check_ids()

    def explain_missing(self, error: MissingPartitionError) -> CqrsError:
        return missing_topic_error(self.plan, self.subscription)

    def explain_denial(self) -> CqrsError:
        return missing_acl_error(self.plan, self.subscription, self.context.loaded.output_topics)

    def explain_takeover(self, later: Claim) -> CqrsError:
        return TakenOverError(
            f"run {later.run} took over process {self.subscription.process}",
            "let the other run continue; start this run again only to take the process manager back",
        )


def create_supervisors(
    plan: ProcessPlan, subscriptions: Iterable[Subscription], attempt: int, stopping: threading.Event
) -> list[ReactingSupervisor]:
    """Return a supervisor for each subscription, with the code of its process manager. No supervisor is started yet."""
    code_root = plan.aggregates_root or plan.root
    names = {subscription.process for subscription in subscriptions}
    loaded_by_name = {name: load_process(name, plan.root, plan.package, code_root) for name in names}
    load = cached_loader(lambda name: registry.load(name, plan.package, code_root))
    return [
        ReactingSupervisor(
            plan,
            subscription,
            loaded_by_name[subscription.process],
            load,
            attempt,
            stopping,
        )
        for subscription in subscriptions
    ]


def cached_loader(load: Callable[[str], Aggregate]) -> Callable[[str], Aggregate]:
    """Return `load` with a cache and a lock.

    Owners call it in their threads for the first command to an aggregate, and concurrent calls of
    `importlib.invalidate_caches` raise `KeyError`.
    """
    lock, cached = threading.Lock(), lru_cache(maxsize=None)(load)

    def load_with_lock(name: str) -> Aggregate:
        with lock:
            return cached(name)

    return load_with_lock
