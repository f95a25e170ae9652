"""An owner's cache of decoded states in front of its shard, in bounded memory."""

from collections.abc import Iterable, Mapping

from cqrs_cli.core.fold import VersionedState

#: The maximal number of states. Reading and decoding a state from the shard is fast, and more states would not fit into
#: the CPU cache.
CACHED_STATES = 20_000

#: The estimated bytes of Python objects for a state. Measured: 430 for 33 bytes of JSON; for 20 KB of JSON between 1 (a
#: single text) and 8 (a list of integers, a dict) for each byte, and 26 for lists of short lists.
_FIXED_BYTES = 500
_BYTES_PER_JSON_BYTE = 8


class DecodedStates:
    """The newest states, by aggregate id. `get` is the dict's own method, because owners call it for every command."""

    def __init__(self, budget: float, capacity: int = CACHED_STATES) -> None:
        """`budget` limits the bytes of objects, `capacity` the number of states. The newest state is always kept."""
        self._budget, self._capacity = budget, capacity
        self._states: dict[str, VersionedState] = {}
        self._sizes: dict[str, int] = {}
        self._total = 0  # an upper bound of the bytes of all states
        self.get = self._states.get

    def put_all(self, states: Mapping[str, VersionedState], json_sizes: Iterable[int]) -> int:
        """Add states; `json_sizes` are the bytes of their JSON. The oldest states are dropped if there is no room.

        Returns the estimated bytes of the Python objects of the added states.
        """
        sizes = dict(
            zip(states, [_FIXED_BYTES + _BYTES_PER_JSON_BYTE * size for size in json_sizes], strict=True)
        )
        total = sum(sizes.values())
        self._sizes.update(sizes)
        self._states.update(states)
        self._total += total  # replaced states count twice, until `_evict` computes the exact sum
        if self._total > self._budget or len(self._states) > self._capacity:
            self._evict(next(reversed(sizes)))
        return total

    def _evict(self, newest: str) -> None:
        """If a limit is exceeded, free a tenth of it, so that the next call is far away."""
        self._total = sum(self._sizes.values())
        if self._total <= self._budget and len(self._states) <= self._capacity:
            return
        for oldest in list(self._states):
            if self._total <= 0.9 * self._budget and len(self._states) <= 0.9 * self._capacity:
                return
            if oldest != newest:
                del self._states[oldest]
                self._total -= self._sizes.pop(oldest)
