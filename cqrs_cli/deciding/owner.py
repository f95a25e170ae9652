"""One owner of one partition: steps 1 to 5 of the protocol. Each step returns the input of the next step.

An owner is never repaired: any error ends it and closes its clients, and the supervisor starts another owner.
"""

from collections.abc import Callable
from dataclasses import replace as replace_log
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferred_fold import check_outcomes_kept, defer_lost_again, fold_deferred
from cqrs_cli.deciding.history import check_history
from cqrs_cli.deciding.inherit import drop_moved_keys, inherit_keys
from cqrs_cli.deciding.log_state import check_gap, check_last_decided, read_log_state
from cqrs_cli.deciding.loop import DecideLoop
from cqrs_cli.deciding.measures import Measures
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
from cqrs_cli.ownership.claim import AcceptedLoss, Claim, parse_claim, successor_claim, with_suspects
from cqrs_cli.ownership.signals import OffsetPending
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.ownership.trials.attempts import Attempts
from cqrs_cli.state.store import Store


class PositionAndClaim(NamedTuple):
    """The result of step 2: the group's offset and claim before this owner's claim."""

    offset: int | None
    claim: Claim | None


class Start(NamedTuple):
    """The result of step 3: the position from which the owner decides."""

    offset: int  # of the next command to decide
    last_outcome: Record | None  # the last visible record of the outcomes


class DecidingOwner:
    """Steps 1 to 5 for one partition. Use as a context manager, which closes the clients."""

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
        measures: Measures,
        old_offset_duration: ErrorDuration,
        catch_up: Callable[[], object],
        pool: ConsumerPool,
    ) -> None:
        """`keys`: for an aggregate with personal fields. `old_offset_duration`: how long the group's offset has seemed
        too low. `catch_up`: folds the visible log into the shard, as step 0 does. `pool`: the consumers of step 0,
        which know the metadata of the logs already.
        """
        self.plan = plan
        self.partition = partition
        self.aggregate = aggregate
        self.store = store
        self.keys = keys
        self.attempts = attempts
        self.old_offset_duration = old_offset_duration
        self.catch_up = catch_up
        self.session = OwnerSession(plan, partition, own_claim, batch_limit, measures, pool)

    def __enter__(self) -> "DecidingOwner":
        return self

    def __exit__(self, *error: object) -> None:
        self.session.__exit__(*error)

    def run_steps(self, stopping: Callable[[], bool]) -> None:
        """Run steps 1 to 5."""
        self.fence()
        group_commit = self.claim()
        start = self.position(group_commit)
        if not wait_for_split(self.session, stopping, self.catch_up):
            return
        state = self.recover(start)
        self.loop(state, start.offset, stopping)

    def fence(self) -> None:
        """1: fence the previous owner, which ends its open transaction."""
        self.session.measures.enter_step("fence")
        self.session.connect()
        failpoints.reached("fence.before")
        self.session.writer.fence()
        failpoints.reached("fence.after")

    def claim(self) -> PositionAndClaim:
        """2: wait for pending commits, compare the committed claim with the own claim, and commit the own claim."""
        session = self.session
        session.measures.enter_step("claim")
        try:
            committed = session.read_commit(session.consumer)
        except KafkaException as error:
            if kafka_error(error).code() == KafkaError._TIMED_OUT:
                raise OffsetPending(str(error)) from error
            raise
        committed_claim = parse_claim(committed.metadata)
        self._require_current(committed.offset, committed_claim)
        session.judge(committed_claim)
        session.offset = committed.offset
        own_claim = successor_claim(session.own_claim, committed_claim, self.store.token())
        session.own_claim = own_claim = with_suspects(own_claim, committed_claim, session.timing.batch_limit)
        if committed_claim and (committed_claim.run_epoch, committed_claim.run) == (
            own_claim.run_epoch,
            own_claim.run,
        ):
            session.counts = committed_claim.counts  # includes the decisions of earlier attempts of this run
        failpoints.reached("claim.before")
        if committed.offset is not None:
            session.commit_position(committed.offset)
        failpoints.reached("claim.after")
        return PositionAndClaim(committed.offset, committed_claim)

    def _require_current(self, offset: int | None, claim: Claim | None) -> None:
        """Raise `UnavailableError` for an offset below the decisions in the shard or the log, until this has persisted
        for `Timing.inconsistency_timeout`.

        A broker that was cut off from the others, or has just become the group's coordinator, may return an old offset.
        A claim at that offset would move the group back.
        """
        session, decided_end = self.session, self.store.positions().commands
        if offset is None or self.plan.accept_loss.get(self.partition) is not None:
            return
        if offset >= decided_end and not session.has_later_outcome(offset, claim):
            return
        if not self.old_offset_duration.persists_for(session.timing.inconsistency_timeout):
            raise UnavailableError(
                f"{session.log.log_name('commands')}: the group's offset is {offset}, and later commands are decided",
                "a broker may have just come back: cqrs reads the offset again",
            )

    def position(self, group_commit: PositionAndClaim) -> Start:
        """3: derive the position from the log. No other step checks topic ids and the partition count."""
        session = self.session
        session.measures.enter_step("position")
        accepted_offset = self.plan.accept_loss.get(self.partition)
        bounds = {kind: session.bounds(kind) for kind in KINDS}  # raises an error if a topic is missing
        session.read_assigned_keys()
        session.check_forwards()
        with session.explaining_stalls():
            state, last_outcome = read_log_state(
                session.log, session.aggregate_topics, bounds, *group_commit, session.assigned_keys
            )
            next_offset = position(state, accepted_offset)
            if next_offset != accepted_offset:
                check_last_decided(state)
                next_offset = check_gap(session.log, state, next_offset)
        claim = session.own_claim
        accepted_loss, suspects = claim.accepted, claim.suspects
        if next_offset == accepted_offset:
            accepted_loss = AcceptedLoss(next_offset, bounds["events"], bounds["outcomes"][1])
            suspects = None  # their offsets may belong to another log
        elif suspects is not None:
            suspects = suspects.limited_to(state.end - next_offset)
        session.own_claim = replace(
            claim,
            topic_id=state.topic_id,
            other_ids=state.other_ids,
            deferred_id=state.deferred_id,
            partitions=state.partitions,
            accepted=accepted_loss,
            suspects=suspects,
        )
        failpoints.reached("position.before")
        if not session.has_claimed or next_offset != session.offset or session.own_claim != claim:
            session.commit_position(next_offset)
        failpoints.reached("position.after")
        return Start(next_offset, last_outcome)

    def recover(self, start: Start) -> StateCache:
        """4: take ownership of the shard, and bring it up to date."""
        session, token, measures = self.session, self.session.own_claim.token, self.session.measures
        measures.enter_step("recover")
        positions = self.store.positions()
        check_history(session.log, positions.last_event, positions.last_outcome)
        if (
            session.own_claim.accepted is None
        ):  # after an accepted loss, the shard may have decisions on lost commands
            check_not_ahead(self.store, session.log, start.offset)
        self.store.take_ownership(token, self.store.token())
        failpoints.reached("recover.taken")
        # The cache must read the shard's positions before the end of the log is requested.
        cache = StateCache(self.aggregate, self.store, token, self.plan.cache_bytes, self.keys)
        outcomes, events, deferred = (session.bounds(kind) for kind in ("outcomes", "events", "deferred"))
        session.writer.set_log_ends(events[1], outcomes[1], deferred[1])
        cache.watch_folding(measures, events[1], outcomes[1])
        accepted_loss, topic_id = session.own_claim.accepted, session.aggregate_topics.ids["commands"]
        window, resume_at, assigned_keys = self.plan.deciding.window, start.offset, session.assigned_keys
        log = replace_log(session.log, key_filter=assigned_keys.key_filter)
        check_outcomes_kept(log, cache, outcomes[0])
        with session.explaining_stalls():
            cache.learn_keys(assigned_keys.key_filter)
            inherit_keys(log, self.aggregate, cache, assigned_keys, window)
            fold_events(log, self.aggregate, cache, events, accepted_loss)
            cache.check_keys(accepted_loss is not None)
            failpoints.reached("recover.events")
            fold_deferred(log, cache, deferred)
            failpoints.reached("recover.deferred")
            fold_outcomes(
                log, cache, outcomes, start.last_outcome, window, resume_at, accepted_loss, topic_id
            )
        defer_lost_again(cache, topic_id, start.offset)
        drop_moved_keys(cache, assigned_keys.key_filter)
        cache.fold(cache.positions._replace(commands=start.offset))
        self.store.set_code_digest(self.aggregate.fold_digest, token)
        session.is_recovered = True
        failpoints.reached("recover.after")
        return cache

    def loop(self, cache: StateCache, position: int, stopping: Callable[[], bool]) -> None:
        """5: decide commands from `position` on, until the target is reached or `stopping()` returns True."""
        session = self.session
        session.close_log_readers()
        suspects = session.own_claim.suspects
        if suspects is not None and suspects.culprit is not None:
            self.attempts.fail_if_exhausted(*suspects.culprit)
        if session.assigned_keys.phase == "adopt":
            import_deferred(session, cache, position)
        while (end := drain_end(session)) is not None:
            session.measures.enter_step("settle")
            position = self._decide(cache, position, stopping, end)
            if position < end:
                return  # stopped
            split(session, cache, position)
        session.measures.enter_step("decide")
        self._decide(cache, position, stopping)

    def _decide(
        self, cache: StateCache, position: int, stopping: Callable[[], bool], drain_end: int | None = None
    ) -> int:
        """Decide from `position` on. Return the offset at which the loop ended."""
        loop = DecideLoop(self.session, self.aggregate, cache, position, self.attempts, drain_end)
        loop.run(stopping)
        return loop.position
