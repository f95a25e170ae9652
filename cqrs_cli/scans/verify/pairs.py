"""Merges the aggregates of two stores, for comparisons."""

#: The aggregates of one store: (aggregate id, state).
import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from cqrs_cli.core.stored import StoredState
from cqrs_cli.state.encoding import MAX_KEY, aggregate_key, shorten

Items = Iterator[tuple[str, StoredState]]

#: (aggregate id, state in the first store, state in the second store). The state is None if a store has no state.
Pairs = Iterator[tuple[str, StoredState | None, StoredState | None]]


def merge_aggregates(first: Items, second: Items) -> Pairs:
    """Yield each aggregate that is in at least one of two stores. Both inputs must be in the order of LMDB's keys."""
    merged = heapq.merge(_with_sort_key(0, first), _with_sort_key(1, second))
    for _, group in groupby(merged, itemgetter(0)):
        states: list[StoredState | None] = [None, None]
        aggregate_id = ""
        for _, side, aggregate_id, state in group:  # noqa: B007  (all items of a group have the same aggregate id)
            states[side] = state
        yield aggregate_id, states[0], states[1]


def _with_sort_key(side: int, items: Items) -> Iterator[tuple[bytes, int, str, StoredState]]:
    for aggregate_id, state in items:
        key = aggregate_key(aggregate_id)
        yield key if len(key) <= MAX_KEY else shorten(key), side, aggregate_id, state
