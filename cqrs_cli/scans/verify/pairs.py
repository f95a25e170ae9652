"""Merge the aggregates of two stores."""

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from cqrs_cli.core.stored import StoredState
from cqrs_cli.state.encoding import MAX_KEY, aggregate_key, shorten

Items = Iterator[tuple[str, StoredState]]

#: An aggregate id, and its states in two stores.
Pairs = Iterator[tuple[str, StoredState | None, StoredState | None]]


def merge_aggregates(first: Items, second: Items) -> Pairs:
    """Yield each aggregate of two stores, which both yield their aggregates in the order of their keys."""
    merged = heapq.merge(_keyed(0, first), _keyed(1, second))
    for _, same in groupby(merged, itemgetter(0)):
        found: list[StoredState | None] = [None, None]
        name = ""
        for _, side, name, saved in same:  # noqa: B007  (the last one's, which is the first one's too)
            found[side] = saved
        yield name, found[0], found[1]


def _keyed(side: int, items: Items) -> Iterator[tuple[bytes, int, str, StoredState]]:
    for name, saved in items:
        key = aggregate_key(name)
        yield key if len(key) <= MAX_KEY else shorten(key), side, name, saved
