"""Bringing a shard up to what is visible, without a fence: before a takeover, and for a shard that is made anew."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.deferred_fold import check_outcomes_kept, fold_deferred
from cqrs_cli.deciding.holding import Holding
from cqrs_cli.deciding.inherit import inherit_ahead, inherit_keys
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.recover import fold_events, fold_outcomes, will_last
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import Claim, may_warm, parse_claim
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.memory import StoreFullError
from cqrs_cli.state.store import NotOwnerError, Store

#: Seconds of folding after which little has come meanwhile.
_MOMENT = 1.0


def until_level(fold: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
    """Fold again and again, as long as it takes long, and each time half as long as before at most. What comes while a
    long log is folded would be folded behind the fence, and commands would wait for it.
    """
    took = math.inf
    while True:
        before, began = took, clock()
        fold()
        took = clock() - began
        if took < _MOMENT or took > before / 2:
            return


class Leveling:
    """Folds again while an owner waits for its turn, as often as it is asked, but not for more than a quarter of the
    time, and not soon after it has folded: its turn may come while it does.
    """

    def __init__(self, fold: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._fold, self._clock, self._rests_until = fold, clock, -1.0

    def __call__(self) -> None:
        if self._clock() > self._rests_until:
            self.fold()

    def fold(self) -> None:
        """Fold now."""
        began = self._clock()
        self._fold()
        done = self._clock()
        self._rests_until = done + max(_MOMENT, 3 * (done - began))


def warm(
    log: PartitionLog,
    aggregate: Aggregate,
    store: Store,
    window: int,
    cache_bytes: int,
    measures: Measures,
    topic_id: str = "",
    holding: Callable[[], Holding] | None = None,
    keys: OwnerKeys | None = None,
) -> ContradictionError | None:
    """Step 0: fold most of the log while the owner before still serves, unfenced; a living owner's shard is left alone.

    The error for an event that the code cannot read, if there is one. Raises `CorruptError`, `StoreFullError` and
    nothing else: what does not fit into memory must not fence anybody.
    """
    try:
        token = store.token()  # before the claim: an owner claims first, then takes the shard
        claim = parse_claim(log.committed().metadata)
        if may_warm(token, claim):
            cache = StateCache(aggregate, store, token, cache_bytes, keys)
            known = None if holding is None else holding()
            fold_visible(log, aggregate, cache, claim, window, measures, topic_id, known)
    except (CorruptError, StoreFullError):
        raise
    except ContradictionError as error:
        return error if will_last(error) else None
    except (CqrsError, NotOwnerError):
        pass  # not fenced yet, so nothing here is a verdict: step 4 reads it all again
    return None


def fold_visible(
    log: PartitionLog,
    aggregate: Aggregate,
    cache: StateCache,
    claim: Claim | None,
    window: int,
    measures: Measures,
    topic_id: str,
    holding: Holding | None = None,
) -> None:
    """Fold all that is committed now, without a fence: `claim` is the committed one. `holding`: the partition's keys,
    if those in its logs are not all.

    Raises `ContradictionError`, also where a transaction shows in part only: then the next look finds it whole.
    """
    if holding is not None and holding.phase == "wait":
        # Its own log is left alone: once born it inherits first. A shard with what it has decided since never would.
        inherit_ahead(log, aggregate, cache, holding, window)
        return
    outcomes = log.bounds("outcomes")
    check_outcomes_kept(log, cache, outcomes[0])
    events, deferred = log.bounds("events"), log.bounds("deferred")  # at least those of the outcomes
    cache.learn_keys(None if holding is None else holding.keeps)
    if holding is not None:
        inherit_keys(log, aggregate, cache, holding, window)
        log = replace(log, keeps=holding.keeps)
    last = log.last_record("outcomes", *outcomes)
    accepted = claim.accepted if claim else None
    cache.watch_folding(measures, events[1], outcomes[1])
    fold_events(log, aggregate, cache, events, accepted)
    fold_deferred(log, cache, deferred)
    fold_outcomes(log, cache, outcomes, last, window, accepted=accepted, topic_id=topic_id)
