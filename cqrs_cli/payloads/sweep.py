"""Removes unused payloads for `cqrs payloads gc`: moves payloads without a record aside, and deletes them a day later.

While a sweep reads the records, a client may write a record that refers to an unused payload. Therefore readers also
look among the payloads that were moved aside. The next sweep moves the payload back if a record refers to it, and only
a sweep a day later deletes it: by then every record that could refer to it is visible.
"""

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.store import UNUSED_SUBFOLDER, StoredPayload
from cqrs_cli.payloads.transfer import PayloadTransfer, payload_transfer, unusable_store_error

#: The age in seconds, since its file was written or moved, at which a payload may be moved or deleted. This is much
#: longer than a command or a transaction takes, and than the half hour for which `PayloadStore.put` reuses a payload.
MIN_UNUSED_AGE = 24 * 3600.0

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: The name of the file that an interrupted upload leaves (`storage.private.atomic_write`).
_DRAFT = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}", re.ASCII)


class SweepResult(NamedTuple):
    """The result of a sweep: the number of payloads that stay, and the payloads that were moved or deleted."""

    kept: int
    put_aside: list[StoredPayload]  # moved to the subfolder of unused payloads
    brought_back: list[StoredPayload]  # moved back, because a record refers to them
    deleted: list[StoredPayload]


class Sweep:
    """A sweep of one folder. Create it before the records are read, and call `sweep` afterwards."""

    def __init__(self, address: PayloadStoreAddress, folder: str) -> None:
        """List the folder; raises `PayloadUnavailableError`."""
        self._transfer: PayloadTransfer = payload_transfer(address)
        self._store, self._folder = self._transfer.store, folder
        self._unused_folder = f"{folder}/{UNUSED_SUBFOLDER}"
        self._listed_files = self._list(self._folder)
        self._unused_files = [file for file in self._list(self._unused_folder) if _NAME.fullmatch(file.name)]

    def _list(self, folder: str) -> list[StoredPayload]:
        """Return the files of a folder. This has no timeout, since a store lists only 1,000 files with one request."""
        try:
            return list(self._store.list_payloads(folder))
        except OSError as error:
            raise unusable_store_error(self._store.uri, error) from error

    @property
    def candidate_digests(self) -> set[str]:
        """The SHA-256 sums to search for in the records."""
        return {file.name for file in [*self._old_files(), *self._unused_files]}

    def _old_files(self) -> list[StoredPayload]:
        return [
            file for file in self._listed_files if _NAME.fullmatch(file.name) and file.age > MIN_UNUSED_AGE
        ]

    def sweep(self, referenced: Collection[str], dry_run: bool) -> SweepResult:
        """Move and delete files, unless this is a dry run. `referenced`: the digests to which a record refers."""
        newly_unused = [file for file in self._old_files() if file.name not in referenced]
        used_again = [file for file in self._unused_files if file.name in referenced]
        expired = [
            file for file in self._unused_files if file.name not in referenced and file.age > MIN_UNUSED_AGE
        ]
        drafts = [
            file for file in self._listed_files if _DRAFT.fullmatch(file.name) and file.age > MIN_UNUSED_AGE
        ]
        if not dry_run:
            newly_unused = [file for file in newly_unused if self._move_if_old(file)]
            for file in used_again:
                self._call(partial(self._store.move, self._unused_folder, self._folder, file.name))
            for file in expired:
                self._call(partial(self._store.remove, self._unused_folder, file.name))
            for file in drafts:
                self._call(partial(self._store.remove, self._folder, file.name))
        listed_count = sum(_NAME.fullmatch(file.name) is not None for file in self._listed_files)
        kept = listed_count - len(newly_unused) + len(used_again)
        return SweepResult(kept, newly_unused, used_again, [*expired, *drafts])

    def _move_if_old(self, payload: StoredPayload) -> bool:
        """Move a payload aside unless it was written again since the listing; True if it was moved."""
        age = self._transfer.call_with_retries(partial(self._store.age, self._folder, payload.name))
        if age is None or age <= MIN_UNUSED_AGE:
            return False
        self._call(partial(self._store.move, self._folder, self._unused_folder, payload.name))
        return True

    def _call(self, call: Callable[[], None]) -> None:
        self._transfer.call_with_retries(call)
