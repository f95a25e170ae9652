"""Re-wraps keys and lets deleted keys be compacted, in the owner of a partition. Each change is a transaction.

Only the owner may write keys: a separate tool could read a key before its erasure, and write it back afterwards.
"""

import time
from collections.abc import Iterator

from cqrs_cli import failpoints
from cqrs_cli.core.context import ChangedKeys, Decisions
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache


class KeyUpkeep:
    """The key maintenance of one partition. Its shard must be recovered before."""

    def __init__(self, session: OwnerSession, cache: StateCache, keys: OwnerKeys) -> None:
        self._session, self._cache, self._keys = session, cache, keys
        self._outdated_portions = outdated_portions(keys, session.timing.rewrap_batch_size)
        self._checked_end = 0  # the end of the keys topic at the last check
        self._tick_at: float | None = None  # time of the next tick, monotonic

    def rewrap(self, position: int) -> None:
        """Re-wrap the next keys that are under an old KEK, with the current KEK. `position`: the offset of the next
        command.
        """
        if outdated_keys := next(self._outdated_portions, None):
            self._commit(position, outdated_keys)

    def is_due(self) -> bool:
        """Return True if the last key record is so old that `append_tick` must be called to let it be compacted."""
        if self._keys.next_offset != self._checked_end:
            self._checked_end = self._keys.next_offset
            self._tick_at = time.monotonic() + self._session.timing.key_tick_after
        return self._tick_at is not None and time.monotonic() >= self._tick_at

    def append_tick(self, position: int) -> None:
        """Append a tick, a record without a subject. A broker closes a segment when the next record arrives, and then
        compacts it, so that an erased key leaves the disk.
        """
        self._commit(position, {})
        self._checked_end, self._tick_at = self._keys.next_offset, None

    def _commit(self, position: int, data_keys: ChangedKeys) -> None:
        session, cache, keys = self._session, self._cache, self._keys
        cache.flush()
        decisions = Decisions(cache.positions.clock, data_keys=data_keys)
        records = keys.records(data_keys) if data_keys else keys.tick()
        failure, hint = (
            f"{keys.log_name} does not accept key records",
            "check the topic's settings: cqrs doctor",
        )
        with session.transaction(position, failure, hint) as transaction:
            transaction.write(decisions)
            session.writer.append_keys(keys.partition, records)
            failpoints.reached("upkeep.noted")
        cache.stage(decisions, position, *transaction.written)
        keys.flush(cache.positions.events)


def outdated_portions(keys: OwnerKeys, max_keys: int) -> Iterator[ChangedKeys]:
    """Yield the keys in force under an older KEK, in portions of at most `max_keys`. A portion is empty if many records
    were read without finding such a key.

    Whether a key is active is checked when its portion is requested, because its aggregate may have been erased since
    the topic was read.
    """
    for listed_subjects in keys.subjects_under_old_keks():
        subjects = list(dict.fromkeys(listed_subjects))
        for start in range(0, max(len(subjects), 1), max_keys):
            yield keys.outdated_keys(subjects[start : start + max_keys])
