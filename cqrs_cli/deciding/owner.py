"""One owner of one partition: steps 1 to 5 of the protocol. Each step returns the input of the next step.

An owner is never repaired: any error ends it and closes its clients, and the supervisor starts another owner.
"""

from collections.abc import Callable
from dataclasses import replace as replace_log
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferred_fold import check_outcomes_kept, defer_lost_again, fold_deferred
from cqrs_cli.deciding.history_check import check_history
from cqrs_cli.deciding.inherit import drop_moved_keys, inherit_keys
from cqrs_cli.deciding.log_state import check_gap, check_last_decided, read_log_state
from cqrs_cli.deciding.loop import DecideLoop
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.position import position
from cqrs_cli.deciding.recover import check_not_ahead, fold_events, fold_outcomes
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.split import drain_end, import_deferred, split, wait_for_split
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.clients import kafka_error
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import AcceptedLoss, Claim, parse_claim, successor_claim, with_suspects
from cqrs_cli.ownership.poison_detection.attempts import Attempts
from cqrs_cli.ownership.signals import OffsetPending
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.state.store import Store


class PositionAndClaim(NamedTuple):
    """The result of step 2: the position and the claim of the previous owner."""

    #: The offset of the first undecided command; the group's offset if it has no claim and the log disagrees with it;
    #: None if the group has no offset.
    offset: int | None
    claim: Claim | None  # the claim in the metadata of the group's offset; None if there is no claim


class Start(NamedTuple):
    """The result of step 3: the position from which the owner decides."""

    offset: int  # of the next command to decide
    last_outcome: Record | None  # the last visible outcome
    outcomes_end: int  # the end of the outcomes when `last_outcome` was read


class DecidingOwner:
    """The owner of one partition: `run_steps` runs steps 1 to 5. As a context manager it closes its clients."""

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        aggregate: Aggregate,
        store: Store,
        keys: OwnerKeys | None,
        own_claim: Claim,
        batch_limit: int,
        attempts: Attempts,
        stale_offset_duration: ErrorDuration,
        catch_up: Callable[[], object],
        pool: ConsumerPool,
    ) -> None:
        """`keys`: None for an aggregate without personal fields. `batch_limit`: the maximal number of commands in a
        batch. `stale_offset_duration`: measures for how long this owner and its predecessors have read an old offset of
        the group. `catch_up`: folds the visible log into the shard, as step 0 does. `pool`: the consumers of step 0,
        which already know the metadata of the logs.
        """
        self.plan = plan
        self.partition = partition
        self.aggregate = aggregate
        self.store = store
        self.keys = keys
        self.attempts = attempts
        self.stale_offset_duration = stale_offset_duration
        self.catch_up = catch_up
        self.session = OwnerSession(plan, partition, own_claim, batch_limit, pool)

    def __enter__(self) -> "DecidingOwner":
        return self

    def __exit__(self, *error: object) -> None:
        self.session.__exit__(*error)

    def run_steps(self, is_stopping: Callable[[], bool]) -> None:
        """Run steps 1 to 5."""
        self.fence()
        group_commit = self.claim()
        start = self.position(group_commit)
        if not wait_for_split(self.session, is_stopping, self.catch_up):
            return
        cache = self.recover(start)
        self.loop(cache, start.offset, is_stopping)

    def fence(self) -> None:
        """1: fence the previous owner. The fence ends its open transaction."""
        reached("owner.step", step="fence")
        self.session.connect()
        reached("fence.before")
        self.session.writer.fence()
        reached("fence.after")

    def claim(self) -> PositionAndClaim:
        """2: read the committed claim, compare it with the own claim, and commit the own claim. Raises `OffsetPending`
        if a commit of the previous owner stays pending.
        """
        session = self.session
        reached("owner.step", step="claim")
        try:
            committed = session.read_commit(session.consumer)
        except KafkaException as error:
            if kafka_error(error).code() == KafkaError._TIMED_OUT:
                raise OffsetPending(str(error)) from error
            raise
        committed_claim, position = parse_claim(committed.metadata), None
        if committed.offset is not None:
            first_undecided = session.first_undecided(committed.offset, committed_claim)
            self._require_current_offset(committed.offset, committed_claim, first_undecided)
            # If another client has moved the offset, step 3 raises an error.
            if committed_claim is not None or first_undecided == committed.offset:
                position = first_undecided
        session.judge(committed_claim)
        session.offset = committed.offset
        own_claim = successor_claim(session.own_claim, committed_claim, self.store.token())
        session.own_claim = own_claim = with_suspects(own_claim, committed_claim, session.timing.batch_limit)
        if committed_claim and (committed_claim.run_epoch, committed_claim.run) == (
            own_claim.run_epoch,
            own_claim.run,
        ):
            session.counts = committed_claim.counts  # includes the decisions of earlier attempts of this run
        reached("claim.before")
        if position is not None:
            session.commit_position(position)
        reached("claim.after")
        return PositionAndClaim(committed.offset if position is None else position, committed_claim)

    def _require_current_offset(self, offset: int, claim: Claim | None, first_undecided: int) -> None:
        """Raise `UnavailableError` if the group's `offset` is old. There are two cases: the shard contains a decision
        at or after `first_undecided`; or the offset has no claim, and the log shows another first undecided command.

        A broker that was cut off from the other brokers, or has just become the group's coordinator, may return an old
        offset. A claim at an old offset would move the group back. If the offset stays old for
        `Timing.inconsistency_timeout`, this function returns, and step 3 reports the inconsistency.
        """
        session, decided_end = self.session, self.store.positions().commands
        if self.plan.accept_loss.get(self.partition) is not None:
            return
        if decided_end <= first_undecided and (claim is not None or first_undecided == offset):
            return
        if not self.stale_offset_duration.persists_for(session.timing.inconsistency_timeout):
            raise UnavailableError(
                f"{session.log.log_name('commands')}: the group's offset is {offset}, and later commands are decided",
                "a broker may have just come back: cqrs reads the offset again",
            )

    def position(self, group_commit: PositionAndClaim) -> Start:
        """3: derive the position from the log. This step also checks the topic ids and the partition count."""
        session = self.session
        reached("owner.step", step="position")
        accepted_offset = self.plan.accept_loss.get(self.partition)
        # (log start, high watermark) of each log; raises an error if a topic is missing.
        bounds = {kind: session.bounds(kind) for kind in KINDS}
        session.read_assigned_keys()
        session.check_commands()
        with session.explaining_stalls():
            log_state, last_outcome = read_log_state(session, bounds, *group_commit)
            next_offset = position(log_state, accepted_offset)
            if next_offset != accepted_offset:
                check_last_decided(log_state)
                next_offset = check_gap(session.log, log_state, next_offset)
        claim = session.own_claim
        accepted_loss, suspects = claim.accepted, claim.suspects
        if next_offset == accepted_offset:
            accepted_loss = AcceptedLoss(next_offset, bounds["events"], bounds["outcomes"][1])
            suspects = None  # the offsets of the suspects may belong to the lost log
        elif suspects is not None:
            suspects = suspects.limited_to(log_state.end - next_offset)
        session.own_claim = replace(
            claim,
            topic_id=log_state.topic_id,
            other_ids=log_state.other_ids,
            deferred_id=log_state.deferred_id,
            partitions=log_state.partitions,
            accepted=accepted_loss,
            suspects=suspects,
        )
        reached("position.before")
        if not session.has_claimed or next_offset != session.offset or session.own_claim != claim:
            session.commit_position(next_offset)
        reached("position.after")
        return Start(next_offset, last_outcome, bounds["outcomes"][1])

    def recover(self, start: Start) -> StateCache:
        """4: take ownership of the shard, and bring it up to date. Return it as the cache of the loop."""
        session, token = self.session, self.session.own_claim.token
        reached("owner.step", step="recover")
        positions = self.store.positions()
        check_history(session.log, positions.last_event, positions.last_outcome)
        # After an accepted loss, the shard may contain decisions on lost commands.
        if session.own_claim.accepted is None:
            check_not_ahead(self.store, session.log, start.offset)
        self.store.take_ownership(token, self.store.token())
        reached("recover.owned")
        # The cache reads the positions of the shard here, before the ends of the logs are requested.
        cache = StateCache(self.aggregate, self.store, token, self.plan.cache_bytes, self.keys)
        outcome_bounds, event_bounds, deferred_bounds = (
            session.bounds(kind) for kind in ("outcomes", "events", "deferred")
        )
        self._require_same_end(start.outcomes_end, outcome_bounds[1])
        session.writer.set_log_ends(event_bounds[1], outcome_bounds[1], deferred_bounds[1])
        cache.report_fold(event_bounds[1], outcome_bounds[1])
        accepted_loss, topic_id = session.own_claim.accepted, session.aggregate_topics.ids["commands"]
        window, resume_at, assigned_keys = self.plan.deciding.window, start.offset, session.assigned_keys
        log = replace_log(session.log, key_filter=assigned_keys.key_filter)
        check_outcomes_kept(log, cache, outcome_bounds[0])
        with session.explaining_stalls():
            cache.read_keys(assigned_keys.key_filter)
            inherit_keys(log, self.aggregate, cache, assigned_keys, window)
            fold_events(log, self.aggregate, cache, event_bounds, accepted_loss)
            cache.check_keys(accepted_loss is not None)
            reached("recover.events")
            fold_deferred(log, cache, deferred_bounds)
            reached("recover.deferred")
            fold_outcomes(
                log, cache, outcome_bounds, start.last_outcome, window, resume_at, accepted_loss, topic_id
            )
        defer_lost_again(cache, topic_id, start.offset)
        drop_moved_keys(cache, assigned_keys.key_filter)
        cache.fold(cache.positions._replace(commands=start.offset))
        self.store.set_code_digest(self.aggregate.fold_digest, token)
        session.is_recovered = True
        reached("recover.after")
        return cache

    def _require_same_end(self, position_end: int, end: int) -> None:
        """Raise `UnavailableError` if the outcomes do not end where they ended when the position was derived, and
        `LaterClaim` if a later owner may have written the outcomes in between.

        After the fence, only a later owner writes outcomes. So if the committed claim is not later, a broker that was
        cut off has answered one of the two requests. Appending after `end` would decide commands again whose outcomes
        are after `position_end`: most of them have not moved the group's offset.
        """
        if end != position_end:
            self.session.judge(self.session.read_committed_claim())
            raise UnavailableError(
                f"{self.session.log.log_name('outcomes')}: two brokers return the ends {position_end} and {end}",
                "a broker may have just come back: cqrs reads the log again",
            )

    def loop(self, cache: StateCache, position: int, is_stopping: Callable[[], bool]) -> None:
        """5: finish a repartitioning that is in progress; then decide commands from `position` on, until the loop's end
        offset is reached or `is_stopping()` returns True.
        """
        session = self.session
        session.close_log_readers()
        suspects = session.own_claim.suspects
        if suspects is not None and suspects.culprit is not None:
            self.attempts.fail_if_exhausted(*suspects.culprit)
        if session.assigned_keys.phase == "adopt":
            import_deferred(session, cache, position)
        while (split_offset := drain_end(session)) is not None:
            reached("owner.step", step="settle")
            position = self._decide(cache, position, is_stopping, split_offset)
            if position < split_offset:
                return  # stopped
            split(session, cache, position)
        reached("owner.step", step="decide")
        self._decide(cache, position, is_stopping)

    def _decide(
        self, cache: StateCache, position: int, is_stopping: Callable[[], bool], drain_end: int | None = None
    ) -> int:
        """Decide from `position` on. Return the offset at which the loop ended. `drain_end`: see `DecideLoop`."""
        loop = DecideLoop(self.session, self.aggregate, cache, position, self.attempts, drain_end)
        loop.run(is_stopping)
        return loop.position
