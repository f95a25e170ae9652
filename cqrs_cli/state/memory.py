"""A partition in a dict: for tests, and to show what a store must do."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from cqrs_cli.core.stored import DedupEntry, StateView, StoredState
from cqrs_cli.state.store import NotOwnerError, Positions, WriteBatch, by_segment, check_clock


class MemoryStore:
    """Gone with the process. `window_ms` is the dedup window, and the length of a segment."""

    waiting = 0.0

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._token = ""
        self._code = ""
        self._positions = Positions()
        self._states: dict[str, StoredState] = {}
        self._segments: dict[int, dict[tuple[str, str], DedupEntry]] = {}

    def token(self) -> str:
        return self._token

    def take_ownership(self, token: str, expected: str) -> None:
        self._check_owner(expected)
        self._token = token

    def code_digest(self) -> str:
        return self._code

    def set_code_digest(self, code: str, token: str) -> None:
        self._check_owner(token)
        self._code = code

    def positions(self) -> Positions:
        return self._positions

    def view(self) -> AbstractContextManager[StateView]:
        return nullcontext(
            _MemoryView(dict(self._states), [dict(segment) for segment in self._segments.values()])
        )

    def apply(self, change: WriteBatch) -> None:
        check_clock(change)
        young = by_segment(change, self._window_ms)
        self._check_owner(change.token)
        if change.start != self._positions:
            raise NotOwnerError(f"positions are {self._positions}, not {change.start}")
        current = change.end.clock // self._window_ms
        self._segments = {s: self._segments.get(s, {}) for s in (current, current - 1)}
        for age, remembered in enumerate(young):
            self._segments[current - age] |= remembered
        self._states |= change.states
        self._positions = change.end

    def items(self) -> Iterator[tuple[str, StoredState]]:
        return iter(list(self._states.items()))

    def count(self) -> int:
        return len(self._states)

    def close(self) -> None:
        pass

    def _check_owner(self, token: str) -> None:
        if token != self._token:
            raise NotOwnerError(f"the token is {self._token!r}, not {token!r}")


class _MemoryView:
    def __init__(
        self, states: dict[str, StoredState], segments: list[dict[tuple[str, str], DedupEntry]]
    ) -> None:
        self._states = states
        self._segments = segments

    def saved(self, aggregate_id: str) -> StoredState | None:
        return self._states.get(aggregate_id)

    def remembered(self, subject: str, command_id: str) -> DedupEntry | None:
        found = [s[subject, command_id] for s in self._segments if (subject, command_id) in s]
        return max(found, key=lambda remembered: remembered.timestamp, default=None)
