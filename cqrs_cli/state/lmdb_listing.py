"""Lists the aggregates of a shard, all of them or a page."""

from collections.abc import Iterator

from cqrs_cli.core.stored import StoredState
from cqrs_cli.state import encoding
from cqrs_cli.state.lmdb_types import Database, Transaction


def iterate_aggregates(txn: Transaction, states: Database) -> Iterator[tuple[str, StoredState]]:
    """Yield every aggregate, in any order."""
    with txn.cursor(states) as cursor:
        for key, value in cursor:
            if encoding.is_long(key):
                whole_key, stored = encoding.decode_long_state(value)
                yield whole_key.decode(), stored
            else:
                yield key.decode(), encoding.decode_state(value)


def read_page(
    txn: Transaction, states: Database, prefix: str, after: str, limit: int
) -> list[tuple[str, StoredState]]:
    """Return at most `limit` aggregates with the `prefix` whose ids are greater than `after`, in the order of UTF-8."""
    first_key, after_key = max(prefix.encode(), after.encode()), after.encode()
    page: list[tuple[str, StoredState]] = []
    with txn.cursor(states) as cursor:
        if limit < 1 or not cursor.set_range(first_key):
            return page
        for key, value in cursor:
            if encoding.is_long(key) or not key.startswith(prefix.encode()) or len(page) == limit:
                break
            if key > after_key:
                page.append((key.decode(), encoding.decode_state(value)))
    return page
