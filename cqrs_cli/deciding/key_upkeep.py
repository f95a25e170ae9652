"""The key maintenance of an owner: it re-wraps keys, and lets the broker compact deleted keys.

Only the owner of a partition may write its keys: a separate tool could read a key before its erasure, and write the key
back afterwards.
"""

import time
from collections.abc import Iterator

from cqrs_cli.core.context import ChangedKeys, Decisions
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.observer import reached


class KeyUpkeep:
    """The key maintenance of one partition, whose shard is recovered. Each change is a transaction of its own."""

    def __init__(self, session: OwnerSession, cache: StateCache, keys: OwnerKeys) -> None:
        self._session, self._cache, self._keys = session, cache, keys
        self._outdated_portions = outdated_portions(keys, session.timing.rewrap_batch_size)
        self._checked_end = 0  # the end of the keys topic when `is_due` was last called
        self._tick_at: float | None = (
            None  # time of the next tick, monotonic seconds; None if no tick is needed
        )

    def rewrap(self, position: int) -> None:
        """Re-encrypt the next portion of keys that are encrypted with an old KEK. `position`: the offset of the next
        command to decide, which the transaction also commits.
        """
        if outdated_keys := next(self._outdated_portions, None):
            self._commit(position, outdated_keys)

    def is_due(self) -> bool:
        """Return True if `append_tick` must be called: the last key record is `Timing.compaction_tick_after` old."""
        if self._keys.next_offset != self._checked_end:
            self._checked_end = self._keys.next_offset
            self._tick_at = time.monotonic() + self._session.timing.compaction_tick_after
        return self._tick_at is not None and time.monotonic() >= self._tick_at

    def append_tick(self, position: int) -> None:
        """Append a tick, a record without a subject. A broker closes a log segment only when a later record arrives,
        and compacts only closed segments. So the tick lets the broker delete an erased key from the disk.
        """
        self._commit(position, {})
        self._checked_end, self._tick_at = self._keys.next_offset, None

    def _commit(self, position: int, data_keys: ChangedKeys) -> None:
        """Commit key records, or a tick if `data_keys` is empty, in a transaction of their own."""
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
            reached("upkeep.produced")
        cache.stage(decisions, position, *transaction.written)
        keys.flush(cache.positions.events)


def outdated_portions(keys: OwnerKeys, max_keys: int) -> Iterator[ChangedKeys]:
    """Yield the active keys that are encrypted with an older KEK, in portions of at most `max_keys`. A portion may be
    empty, so that the caller gets control after each batch of records.

    A key is looked up again when its portion is requested, because its aggregate may have been erased since the record
    was read.
    """
    for listed_subjects in keys.subjects_under_old_keks():
        subjects = list(dict.fromkeys(listed_subjects))
        for start in range(0, max(len(subjects), 1), max_keys):
            yield keys.outdated_keys(subjects[start : start + max_keys])
