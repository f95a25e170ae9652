"""Brings a shard up to date with the visible log, without a fence: before a takeover, or for a rebuilt shard."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.deferred_fold import check_outcomes_kept, fold_deferred
from cqrs_cli.deciding.history_check import check_history
from cqrs_cli.deciding.inherit import inherit_before_split, inherit_keys
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.recover import fold_events, fold_outcomes, is_permanent
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import Claim, is_shard_idle, parse_claim
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.memory import StoreFullError
from cqrs_cli.state.store import NotOwnerError, Store

#: A fold that takes fewer seconds is not repeated at once, because few records arrive during it.
_SHORT_FOLD = 1.0


def catch_up_fully(fold: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
    """Call `fold` repeatedly, until a call takes less than a second, or more than half as long as the previous call.

    One call is not enough: the records that arrive while a long log is folded would be folded after the fence, while
    commands wait.
    """
    duration = math.inf
    while True:
        previous_duration, started_at = duration, clock()
        fold()
        duration = clock() - started_at
        if duration < _SHORT_FOLD or duration > previous_duration / 2:
            return


class CatchUp:
    """Folds the log repeatedly while an owner waits for its takeover.

    The waiting owner calls this object several times a second. A takeover has to wait for a running fold. So after each
    fold, calls do nothing for three times the duration of that fold, at least a second.
    """

    def __init__(self, fold: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._fold, self._clock, self._paused_until = fold, clock, -1.0

    def __call__(self) -> None:
        if self._clock() > self._paused_until:
            self.fold()

    def fold(self) -> None:
        """Fold now."""
        started_at = self._clock()
        self._fold()
        finished_at = self._clock()
        self._paused_until = finished_at + max(_SHORT_FOLD, 3 * (finished_at - started_at))


def fold_unfenced(
    plan: Plan,
    partition: Partition,
    log: PartitionLog,
    aggregate: Aggregate,
    store: Store,
    keys: OwnerKeys | None = None,
) -> ContradictionError | None:
    """Fold most of the log while the previous owner still decides, without a fence: step 0 in docs/owner.md. If the
    owner of the shard may be alive, the shard is not changed.

    Return the error for an event that the code cannot read, or None. Raises only `CorruptError` and `StoreFullError`: a
    run whose store is too small must not fence any owner.
    """
    try:
        # The token is read before the claim, as `is_shard_idle` requires: an owner claims before it takes the shard.
        token = store.token()
        claim = parse_claim(log.committed_position().metadata)
        if is_shard_idle(token, claim):
            cache = StateCache(aggregate, store, token, plan.cache_bytes, keys)
            fold_visible(plan, partition, log, aggregate, cache, claim)
    except (CorruptError, StoreFullError):
        raise
    except ContradictionError as error:
        return error if is_permanent(error) else None
    except (CqrsError, NotOwnerError):
        pass  # without a fence no error is final: step 4 (recover) reads these records again
    return None


def fold_visible(
    plan: Plan,
    partition: Partition,
    log: PartitionLog,
    aggregate: Aggregate,
    cache: StateCache,
    claim: Claim | None,
) -> None:
    """Fold all records that are committed now, without a fence. `claim`: the committed claim.

    Raises `ContradictionError` if records contradict each other. The error may be temporary: if only a part of a
    transaction is visible now, the next call reads the whole transaction.
    """
    assigned_keys, window = plan.read_assigned_keys(partition, pool=log.pool), plan.deciding.window
    if assigned_keys.phase == "wait":
        # A child's own log is not folded: a shard with outcomes of its own no longer inherits (`inherit_keys`), and a
        # child has to inherit first.
        inherit_before_split(log, aggregate, cache, assigned_keys, window)
        return
    outcome_bounds = log.bounds("outcomes")
    check_outcomes_kept(log, cache, outcome_bounds[0])
    # These ends are requested after the end of the outcomes, so they include the events and entries of all outcomes.
    event_bounds, deferred_bounds = log.bounds("events"), log.bounds("deferred")
    check_history(log, cache.positions.last_event, cache.positions.last_outcome)
    cache.read_keys(assigned_keys.key_filter)
    inherit_keys(log, aggregate, cache, assigned_keys, window)
    log = replace(log, key_filter=assigned_keys.key_filter)
    last_outcome = log.last_record("outcomes", *outcome_bounds)
    accepted_loss = claim.accepted if claim else None
    topic_id = plan.topics[partition.aggregate].ids["commands"]
    cache.report_fold(event_bounds[1], outcome_bounds[1])
    fold_events(log, aggregate, cache, event_bounds, accepted_loss)
    fold_deferred(log, cache, deferred_bounds)
    fold_outcomes(
        log, cache, outcome_bounds, last_outcome, window, accepted_loss=accepted_loss, topic_id=topic_id
    )
