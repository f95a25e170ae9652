"""A mutable `DeferredView` in memory, for the store in memory and for a batch without stored entries."""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from cqrs_cli.core.deferral.entry import Deferral

#: The approximate bytes of an entry, without its command.
_AROUND = 1500


class DeferralTable:
    """Entries, indexed by key, by command, by the offset of the resubmitted command, and by due time."""

    def __init__(self, entries: Iterable[Deferral] = ()) -> None:
        self.bytes = 0
        self._entries: dict[str, Deferral] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self._said: dict[tuple[str, int], str] = {}
        self._due: list[tuple[int, str]] = []  # a heap; outdated items stay until they reach the top
        self.change({entry.key: entry for entry in entries})

    def copy(self) -> "DeferralTable":
        """Return a new table with the same entries."""
        return DeferralTable(self._entries.values())

    def change(self, changes: Mapping[str, Deferral | None]) -> None:
        """Add or replace entries by key; None removes an entry."""
        self.bytes += self.growth(changes)
        for key, entry in changes.items():
            before = self._entries.pop(key, None)
            if before is not None:
                self._said.pop((before.said_topic, before.said or 0), None)
                if (
                    self._ids.get((before.subject, before.id)) == key
                ):  # otherwise the index names a later command with this id
                    del self._ids[before.subject, before.id]
            if entry is not None:
                self._entries[key] = entry
                self._ids[entry.subject, entry.id] = key
                if entry.said is None:
                    heappush(self._due, (entry.due, key))
                else:
                    self._said[entry.said_topic, entry.said] = key
        if len(self._due) > 2 * len(self._entries) + 1000:
            self._due = [(one.due, key) for key, one in self._entries.items() if one.is_parked]
            heapify(self._due)

    def growth(self, changes: Mapping[str, Deferral | None]) -> int:
        """Return the approximate bytes that these changes would add."""
        after = sum(_AROUND + len(entry.command) for entry in changes.values() if entry is not None)
        there = (self._entries.get(key) for key in changes)
        return after - sum(_AROUND + len(entry.command) for entry in there if entry is not None)

    def find(self, key: str) -> Deferral | None:
        return self._entries.get(key)

    def of_id(self, subject: str, command_id: str) -> Deferral | None:
        key = self._ids.get((subject, command_id))
        return None if key is None else self._entries[key]

    def said_at(self, topic: str, offset: int) -> Deferral | None:
        key = self._said.get((topic, offset))
        return None if key is None else self._entries[key]

    def said(self) -> list[Deferral]:
        return [self._entries[key] for key in self._said.values()]

    def due(self, until: int, most: int) -> list[Deferral]:
        found: dict[str, Deferral] = {}  # a dict, since the heap may contain an entry twice
        while len(found) < most and (due := self.next_due()) is not None and due <= until:
            key = heappop(self._due)[1]
            found[key] = self._entries[key]
        for key, entry in found.items():
            heappush(self._due, (entry.due, key))
        return list(found.values())

    def next_due(self) -> int | None:
        while self._due:
            due, key = self._due[0]
            entry = self._entries.get(key)
            if entry is not None and entry.is_parked and entry.due == due:
                return due
            heappop(self._due)
        return None

    def is_empty(self) -> bool:
        return not self._entries
