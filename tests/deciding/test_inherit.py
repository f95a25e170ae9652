"""A child partition reads no log twice, and writes imported commands in portions that fit in a transaction."""

import pytest

from aggregates.counter import decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.inherit import inherit_keys, split_into_portions
from cqrs_cli.deciding.state_cache import FoldedOfParent, StateCache
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split
from cqrs_cli.state.memory import MemoryStore

COUNTER = Aggregate.of("counter", decider)
UNREACHABLE_LOG = PartitionLog(Connection("127.0.0.1:1"), Topics("counter"), 3)

#: Partition 3 got its keys from partition 1, which got them from partition 0.
LINEAGE = PartitionLineage((1, 2, 4), (Split(0, 1, 2, 2, 7, 8, 0, 9), Split(1, 2, 4, 3, 4, 5, 0, 10)))
FOLDED_PARENTS = {0: FoldedOfParent(7, 8, 2), 1: FoldedOfParent(4, 5, 3)}


def deferred_commands(*sizes: int) -> list[Deferral]:
    """Return deferred commands of these sizes in bytes."""
    return [
        Deferral("T", number, "a", f"{number}", 1, 2, 3, 5, 1, "LATER", b"x" * size)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "portion_sizes"),
    [
        ((), [0]),
        ((1, 1), [2]),
        ((1, 1, 1), [3]),
        ((1, 1, 1, 1), [3, 1]),
        ((9, 1, 30, 1, 1), [2, 1, 2]),
        ((10, 10), [1, 1]),
    ],
)
def test_portions_have_limits(sizes: tuple[int, ...], portion_sizes: list[int]) -> None:
    """A portion has at most three commands or ten bytes, but may have one larger command."""
    entries = deferred_commands(*sizes)
    written_portions = list(split_into_portions(entries, 3, 10))
    assert [len(portion) for portion in written_portions] == portion_sizes
    assert [entry for portion in written_portions for entry in portion] == entries


def test_no_log_is_read_twice() -> None:
    """The shard was prepared during the old run. After the split commands wait, so no further request may be made."""
    store = MemoryStore(1000)
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me")
    cache.store_inherited_offsets(FOLDED_PARENTS)
    inherit_keys(UNREACHABLE_LOG, COUNTER, cache, AssignedKeys(LINEAGE, 3, 4, "murmur2"), 1000)
    assert cache.positions.clock == 10 and cache.inherited_offsets() == FOLDED_PARENTS
