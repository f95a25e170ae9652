"""Decoded states that an owner keeps above its shard, in bounded memory."""

from cqrs_cli.core.fold import Folded

#: The most states: a page of the shard is soon read and decoded, and more of them stay in no processor's cache.
CACHED_STATES = 20_000

#: Bytes of Python objects that a state is taken to need. Measured: 430 for 33 bytes of JSON; for 20 KB of JSON from 1
#: (a single text) to 8 (a list of integers, a dict) for each byte, and 26 for lists of short lists.
_FIXED = 500
_PER_BYTE = 8


class DecodedStates:
    """The newest states, by aggregate id. `get` is the dict's own: an owner asks it for every command."""

    def __init__(self, budget: float, capacity: int = CACHED_STATES) -> None:
        """`budget`: bytes of objects, `capacity`: states; the newest state is kept whatever its size."""
        self._budget, self._capacity = budget, capacity
        self._states: dict[str, Folded] = {}
        self._sizes: dict[str, int] = {}
        self._total = 0
        self.get = self._states.get

    def keep(self, aggregate_id: str, folded: Folded, encoded: int) -> int:
        """Keep a state whose JSON has `encoded` bytes; the oldest ones are forgotten where there is no room.

        Returns the bytes of objects that it is taken to need.
        """
        size = _FIXED + _PER_BYTE * encoded
        self._total += size - self._sizes.get(aggregate_id, 0)
        self._sizes[aggregate_id] = size
        self._states[aggregate_id] = folded
        if self._total > self._budget or len(self._states) > self._capacity:
            self._forget(aggregate_id)
        return size

    def _forget(self, newest: str) -> None:
        """Make room for a tenth of all, so that this is done seldom."""
        for oldest in list(self._states):
            if self._total <= 0.9 * self._budget and len(self._states) <= 0.9 * self._capacity:
                return
            if oldest != newest:
                del self._states[oldest]
                self._total -= self._sizes.pop(oldest)
