"""A shard that may have missed the end of a deferred command does not resubmit this command."""

import pytest

from aggregates.counter import decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.deferred_fold import check_outcomes_kept
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Positions

UNREACHABLE_LOG = PartitionLog(Connection("127.0.0.1:1"), Topics("counter"), 0)
RESUBMITTED_DEFERRAL = Deferral("T", 0, "a", "x", 1, 2, 3, 5, 1, "LATER", b"{}")


def cache_after_outcomes(outcomes: int) -> StateCache:
    """Return the cache of a shard that has folded deferred commands up to 5, and `outcomes` outcomes."""
    store = MemoryStore(1000)
    store.take_ownership("me", "")
    cache = StateCache(Aggregate.of("counter", decider), store, "me")
    cache.fold(
        Positions(outcomes=outcomes, deferred=5), deferred={RESUBMITTED_DEFERRAL.key: RESUBMITTED_DEFERRAL}
    )
    return cache


@pytest.mark.parametrize(("outcomes", "has_deferred", "deferred_position"), [(0, False, 0), (3, True, 5)])
def test_entries_without_outcomes_are_folded_again(
    outcomes: int, has_deferred: bool, deferred_position: int
) -> None:
    """A child partition imported the entries before its activation, or their owner died before it folded outcomes."""
    cache = cache_after_outcomes(outcomes)
    check_outcomes_kept(UNREACHABLE_LOG, cache, 3)
    assert (cache.has_deferred, cache.positions.deferred) == (has_deferred, deferred_position)


def test_deleted_outcomes_make_the_shard_corrupt() -> None:
    with pytest.raises(CorruptError, match="outcomes up to 4 are deleted"):
        check_outcomes_kept(UNREACHABLE_LOG, cache_after_outcomes(3), 4)
