"""Step 0 of the owner protocol: what takes long is done while the owner before still serves, unfenced."""

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.offsets import committed_now
from cqrs_cli.kafka.readers import bounds, last_record
from cqrs_cli.owner.claim import may_warm, parse_claim
from cqrs_cli.owner.plan import Partition, Plan
from cqrs_cli.owner.recover import fold_events, fold_outcomes
from cqrs_cli.owner.state_cache import StateCache
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.store import NotOwnerError, Store


def warm(plan: Plan, partition: Partition, aggregate: Aggregate, store: Store) -> None:
    """Fold what is visible into the shard; a living owner's is left alone. Raises `CorruptError` and nothing else."""
    name, number = partition
    topics, connection = plan.grounds[name].topics, plan.connection
    try:
        token = store.token()  # before the claim: an owner claims first, then takes the shard
        claim = parse_claim(committed_now(connection, topics, [number])[number].metadata)
        if not may_warm(token, claim):
            return
        cache = StateCache(aggregate, store, token)
        outcomes = bounds(connection, topics.outcomes, [number])[number]
        events = bounds(connection, topics.events, [number])[number]  # at least those of the outcomes
        last = last_record(connection, topics.outcomes, number, *outcomes)
        accepted = claim.accepted if claim else None
        fold_events(connection, aggregate, topics, number, cache, events, accepted)
        fold_outcomes(connection, topics, number, cache, outcomes, last, plan.window, accepted=accepted)
    except CorruptError:
        raise
    except (CqrsError, NotOwnerError):
        pass  # not fenced yet, so nothing here is a verdict: step 4 reads it all again
