"""Decoded states that an owner keeps above its shard, in bounded memory."""

from collections.abc import Iterable, Mapping

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
        self._total = 0  # at least the bytes of all
        self.get = self._states.get

    def keep_all(self, states: Mapping[str, Folded], encoded: Iterable[int]) -> int:
        """Keep states whose JSON has so many bytes each; the oldest ones are forgotten where there is no room.

        Returns the bytes of objects that they are taken to need.
        """
        sizes = dict(zip(states, [_FIXED + _PER_BYTE * size for size in encoded], strict=True))
        total = sum(sizes.values())
        self._sizes.update(sizes)
        self._states.update(states)
        self._total += total  # those kept before count twice, until it matters
        if self._total > self._budget or len(self._states) > self._capacity:
            self._forget(next(reversed(sizes)))
        return total

    def _forget(self, newest: str) -> None:
        """If there are too many, make room for a tenth of all, so that this is done seldom."""
        self._total = sum(self._sizes.values())
        if self._total <= self._budget and len(self._states) <= self._capacity:
            return
        for oldest in list(self._states):
            if self._total <= 0.9 * self._budget and len(self._states) <= 0.9 * self._capacity:
                return
            if oldest != newest:
                del self._states[oldest]
                self._total -= self._sizes.pop(oldest)
