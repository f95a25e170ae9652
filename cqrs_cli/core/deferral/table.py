"""A mutable `DeferredView` in memory: for the store in memory, for simulations, and as the empty view of a batch."""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from cqrs_cli.core.deferral.entry import Deferral

#: The approximate bytes of an entry, without its command.
_ENTRY_BYTES = 1500


class DeferralTable:
    """Entries, indexed by key, by command, by the offset of the resubmitted command, and by due time."""

    def __init__(self, entries: Iterable[Deferral] = ()) -> None:
        self.bytes = 0
        self._entries: dict[str, Deferral] = {}
        self._keys_by_command_id: dict[tuple[str, str], str] = {}
        self._keys_by_resubmission: dict[tuple[str, int], str] = {}
        #: A heap of (due time in ms, entry key). Outdated items stay until they reach the top.
        self._due: list[tuple[int, str]] = []
        self.apply_changes({entry.key: entry for entry in entries})

    def copy(self) -> "DeferralTable":
        """Return a new table with the same entries."""
        return DeferralTable(self._entries.values())

    def apply_changes(self, changes: Mapping[str, Deferral | None]) -> None:
        """Add or replace entries by key; None removes an entry."""
        self.bytes += self.added_bytes(changes)
        for key, entry in changes.items():
            before = self._entries.pop(key, None)
            if before is not None:
                self._keys_by_resubmission.pop(
                    (before.resubmitted_topic_id, before.resubmitted_offset or 0), None
                )
                # Otherwise the index names a later command with the same id.
                if self._keys_by_command_id.get((before.subject, before.id)) == key:
                    del self._keys_by_command_id[before.subject, before.id]
            if entry is not None:
                self._entries[key] = entry
                self._keys_by_command_id[entry.subject, entry.id] = key
                if entry.resubmitted_offset is None:
                    heappush(self._due, (entry.due, key))
                else:
                    self._keys_by_resubmission[entry.resubmitted_topic_id, entry.resubmitted_offset] = key
        if len(self._due) > 2 * len(self._entries) + 1000:
            self._due = [(entry.due, key) for key, entry in self._entries.items() if entry.is_parked]
            heapify(self._due)

    def added_bytes(self, changes: Mapping[str, Deferral | None]) -> int:
        """Return the approximate bytes that these changes would add."""
        added = sum(_ENTRY_BYTES + len(entry.command) for entry in changes.values() if entry is not None)
        replaced = (self._entries.get(key) for key in changes)
        return added - sum(_ENTRY_BYTES + len(entry.command) for entry in replaced if entry is not None)

    def find_entry(self, key: str) -> Deferral | None:
        return self._entries.get(key)

    def find_by_command_id(self, subject: str, command_id: str) -> Deferral | None:
        key = self._keys_by_command_id.get((subject, command_id))
        return None if key is None else self._entries[key]

    def find_resubmitted_at(self, topic_id: str, offset: int) -> Deferral | None:
        key = self._keys_by_resubmission.get((topic_id, offset))
        return None if key is None else self._entries[key]

    def resubmitted_entries(self) -> list[Deferral]:
        return [self._entries[key] for key in self._keys_by_resubmission.values()]

    def due_entries(self, until: int, max_entries: int) -> list[Deferral]:
        entries: dict[str, Deferral] = {}  # a dict, since the heap may contain an entry twice
        while len(entries) < max_entries and (due := self.next_due()) is not None and due <= until:
            key = heappop(self._due)[1]
            entries[key] = self._entries[key]
        for key, entry in entries.items():
            heappush(self._due, (entry.due, key))
        return list(entries.values())

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
