"""An owner's work for the keys of its partition besides deciding, each in a transaction of its own.

Nobody else may write there: a tool that had read a key before it was erased would bring it back.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.personal.sealing import DataKey
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.keys.topic import BEAT


class KeyUpkeep:
    """The upkeep of one partition, over a recovered shard."""

    def __init__(self, session: OwnerSession, cache: StateCache, keys: OwnerKeys) -> None:
        self._session, self._cache, self._keys = session, cache, keys
        self._outdated = outdated(keys, session.timing.keys_at_once)
        self._read = 0  # the end of the keys when they were last looked at
        self._beat_at: float | None = None  # monotonic

    def rewrap(self, at: int) -> None:
        """Put the next keys that are under an old master key under the current one. `at` is the position."""
        if found := next(self._outdated, None):
            self._commit(at, found)

    def is_due(self) -> bool:
        """True if the keys have had no record for so long that a beat must let the last ones be compacted."""
        if self._keys.read != self._read:
            self._read = self._keys.read
            self._beat_at = time.monotonic() + self._session.timing.keys_beat_after
        return self._beat_at is not None and time.monotonic() >= self._beat_at

    def beat(self, at: int) -> None:
        """Append a record that says nothing: a broker closes a segment, which then is compacted, when the next record
        comes. So the key before an erasure leaves the disk.
        """
        self._commit(at, {})
        self._read, self._beat_at = self._keys.read, None

    def _commit(self, at: int, wrapped: Mapping[str, DataKey]) -> None:
        session, cache, keys = self._session, self._cache, self._keys
        cache.flush()
        done = Decisions(cache.positions.clock, keys={**wrapped})
        records: Sequence[tuple[bytes | None, bytes]] = keys.records(done.keys) or [BEAT]
        refused, hint = f"{keys.place} does not take keys", "see what its settings allow: cqrs doctor"
        with session.transaction(at, refused, hint) as transaction:
            transaction.write(done)
            session.writer.note_keys(keys.partition, records)
            failpoints.reached("upkeep.noted")
        cache.stage(done, at, *transaction.written)
        keys.flush(cache.positions.events)


def outdated(keys: OwnerKeys, most: int) -> Iterator[dict[str, DataKey]]:
    """The keys in force under an older master key, in portions; an empty one where much was read and none is.

    What is in force is judged when a portion is asked for: an aggregate may have been erased since the topic was read.
    """
    for some in keys.suspects():
        subjects = list(dict.fromkeys(some))
        for first in range(0, max(len(subjects), 1), most):
            yield keys.outdated(subjects[first : first + most])
