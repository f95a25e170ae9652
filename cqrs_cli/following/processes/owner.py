"""The owner of an events partition for a process manager, and its steps 0 to 3."""

import time
from collections.abc import Callable
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.child_partitions import ChildPartitions
from cqrs_cli.following.processes.in_doubt import resolve_in_doubt_transaction
from cqrs_cli.following.processes.loop import ReactionContext, ReactLoop
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key, start_position
from cqrs_cli.following.processes.positions import read_positions, read_source_state
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.kafka.clients import kafka_error
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import Claim, with_suspects
from cqrs_cli.ownership.open_transactions import explain_stall
from cqrs_cli.ownership.signals import OffsetPending


class ReactingOwner:
    """One owner. Use it as a context manager, which closes its clients. `loop`: None before step 3."""

    def __init__(
        self,
        plan: ProcessPlan,
        subscription: Subscription,
        own_claim: Claim,
        batch_limit: int,
        context: ReactionContext,
    ) -> None:
        self.plan, self.subscription, self.context = plan, subscription, context
        self.session = ReactSession(plan, subscription, own_claim, batch_limit)
        self.loop: ReactLoop | None = None
        self.child_partitions: ChildPartitions | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.__exit__(*error)

    def run_steps(self, is_stopping: Callable[[], bool]) -> None:
        """Do steps 0 to 3. A child partition without events to read ends after step 2."""
        self.resolve_in_doubt()
        self.fence()
        start = self.claim()
        if start is not None:
            self.react(start, is_stopping)

    def resolve_in_doubt(self) -> None:
        """0: resolve an in-doubt transaction of the previous writer.

        The transaction may hide commands of a partition from their owner. The writer's next write to the partition
        would commit or abort the transaction arbitrarily, so it is resolved before each fence.
        """
        resolve_in_doubt_transaction(self.plan, self.subscription, False)

    def fence(self) -> None:
        """1: fence the previous owner; Kafka then resolves its open transaction."""
        self.session.connect()
        reached("fence.before")
        self.session.writer.fence()
        reached("fence.after")

    def claim(self) -> int | None:
        """2: judge the recorded claim and position, and commit the own claim before any event is read. Return the start
        offset.

        So a new process manager commits its start, and a later crash skips no event. The first position of a child
        partition is written by the owner of its parent. Until then, this method raises `UnavailableError` for the
        child, or returns None if the child has no events to read.
        """
        plan, subscription, session = self.plan, self.subscription, self.session
        try:
            positions = read_positions(plan.connection, session.topics)
        except StalledError as error:
            raise explain_stall(plan.connection, session.logs(), error) from error
        recorded = positions.get(position_key(subscription.source))
        recorded_claim = recorded.claim if recorded else None
        session.judge(recorded_claim)
        try:
            state = read_source_state(plan, subscription, session.consumer, positions)
        except KafkaException as error:
            if kafka_error(error).code() == KafkaError._TIMED_OUT:
                raise OffsetPending(str(error)) from error
            raise
        accepted_loss = plan.losses.get(subscription)
        child_partitions = ChildPartitions(plan, subscription, positions)
        # With an accepted loss the operator chooses every position.
        self.child_partitions = child_partitions if accepted_loss is None else None
        if self.child_partitions is not None and recorded is None and state.group_offset is None:
            if child_partitions.is_child():
                self._require_no_events()
                return None
            # With `--from beginning`, child partitions wait for this partition, so that events come in order.
            if not plan.from_beginning:
                session.child_positions = child_partitions.start_positions_at_end()
        start = start_position(
            state,
            from_beginning=plan.from_beginning,
            skip=plan.skips.get(subscription),
            accepted_loss=accepted_loss,
            actor=plan.actor,
            now=time.time_ns() // 1_000_000,
        )
        own_claim = replace(
            session.own_claim,
            number=1 + max(session.own_claim.number, recorded_claim.number if recorded_claim else 0),
        )
        session.own_claim = with_suspects(own_claim, recorded_claim, plan.timing.batch_limit)
        reached("claim.before")
        session.commit([], ProcessPosition(start.offset, session.own_claim, *start[1:]))
        reached("claim.after")
        session.is_recovered = True
        return start.offset

    def _require_no_events(self) -> None:
        """Raise `UnavailableError` if there may be events to read. The supervisor then starts another owner later."""
        end_offsets = self.plan.end_offsets
        if end_offsets is None or end_offsets[self.subscription] > 0:
            raise UnavailableError(
                f"{self.subscription}: waits until its parent partition, which had its keys before, is processed up "
                "to the split"
            )

    def react(self, start: int, is_stopping: Callable[[], bool]) -> None:
        """3: react to events from `start` on, until the end offset is reached or `is_stopping()` returns True."""
        loop = self.loop = ReactLoop(self.session, self.context, start)
        if self.child_partitions is not None:
            loop.due_positions = self.child_partitions.due_positions
        loop.run(is_stopping)
