"""Step 0 of the owner protocol: fold most of the log while the owner before still serves, unfenced."""

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.owner.claim import may_warm, parse_claim
from cqrs_cli.owner.recover import fold_events, fold_outcomes
from cqrs_cli.owner.state_cache import StateCache
from cqrs_cli.owner.telemetry.measures import Measures
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.store import NotOwnerError, Store


def warm(
    log: PartitionLog, aggregate: Aggregate, store: Store, window: int, cache_bytes: int, measures: Measures
) -> None:
    """Fold what is visible into the shard; a living owner's is left alone. Raises `CorruptError` and nothing else."""
    try:
        token = store.token()  # before the claim: an owner claims first, then takes the shard
        claim = parse_claim(log.committed().metadata)
        if not may_warm(token, claim):
            return
        cache = StateCache(aggregate, store, token, cache_bytes)
        outcomes = log.bounds("outcomes")
        events = log.bounds("events")  # at least those of the outcomes
        last = log.last_record("outcomes", *outcomes)
        accepted = claim.accepted if claim else None
        cache.watch_folding(measures, events[1], outcomes[1])
        fold_events(log, aggregate, cache, events, accepted)
        fold_outcomes(log, cache, outcomes, last, window, accepted=accepted)
    except CorruptError:
        raise
    except (CqrsError, NotOwnerError):
        pass  # not fenced yet, so nothing here is a verdict: step 4 reads it all again
