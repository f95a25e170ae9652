"""An owner's cache of decoded states in front of its shard, in bounded memory."""

from collections.abc import Iterable, Mapping

from cqrs_cli.core.fold import VersionedState

#: The maximal number of states. Reading and decoding a state from the shard is fast, and more states would not fit into
#: the CPU cache.
CACHED_STATES = 20_000

#: The estimated bytes of the Python objects of a state: a fixed number, and a number for each byte of its JSON.
#: Measured: a state with 33 bytes of JSON needs 430 bytes. A state with 20 KB of JSON needs 1 byte (a single text) to 8
#: bytes (a list of integers, a dict) for each byte of JSON, and 26 bytes if it consists of lists of short lists.
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
        """Compute the exact sum. If a limit is exceeded, drop the oldest states until a tenth of each limit is free, so
        that many states can be added before the next call.
        """
        self._total = sum(self._sizes.values())
        if self._total <= self._budget and len(self._states) <= self._capacity:
            return
        for oldest in list(self._states):
            if self._total <= 0.9 * self._budget and len(self._states) <= 0.9 * self._capacity:
                return
            if oldest != newest:
                del self._states[oldest]
                self._total -= self._sizes.pop(oldest)
