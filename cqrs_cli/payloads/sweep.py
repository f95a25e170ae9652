"""Removes payloads that no record refers to, for `cqrs payloads gc`: moves them aside, and deletes them a day later.

A record that refers to a payload may be written while the records are read. So readers still find a payload that was
moved aside, the next sweep moves it back if a record refers to it, and only a later sweep deletes it. By then each
record that could refer to it is visible.
"""

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.store import ASIDE, StoredPayload
from cqrs_cli.payloads.transfer import PayloadTransfer, payload_transfer, unusable

#: Seconds for which a payload is spared after it was written or moved aside. This is much longer than a command or a
#: transaction takes, and than the half hour during which an existing payload is not written again (store.py).
SPARED = 24 * 3600.0

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DRAFT = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}", re.ASCII)


class SweepResult(NamedTuple):
    """The result of a sweep: the number of kept payloads, and the payloads that were moved or deleted."""

    kept: int
    put_aside: list[StoredPayload]  # moved to the subfolder of unused payloads
    brought_back: list[StoredPayload]  # moved back, because a record refers to them
    deleted: list[StoredPayload]


class Sweep:
    """A sweep of one folder. Create it before the records are read, and call `sweep` afterwards."""

    def __init__(self, address: PayloadStoreAddress, folder: str) -> None:
        """List the folder; raises `PayloadUnavailableError`."""
        self._transfer: PayloadTransfer = payload_transfer(address)
        self._store, self._folder, self._aside = self._transfer.store, folder, f"{folder}/{ASIDE}"
        self._listed = self._list(self._folder)
        self._put_aside = [file for file in self._list(self._aside) if _NAME.fullmatch(file.name)]

    def _list(self, folder: str) -> list[StoredPayload]:
        """Return the files of a folder. This has no timeout, since a store lists only 1,000 files with one request."""
        try:
            return list(self._store.list_payloads(folder))
        except OSError as error:
            raise unusable(self._store.uri, error) from error

    @property
    def candidate_digests(self) -> set[str]:
        """The SHA-256 sums to search for in the records."""
        return {file.name for file in [*self._old(), *self._put_aside]}

    def _old(self) -> list[StoredPayload]:
        return [file for file in self._listed if _NAME.fullmatch(file.name) and file.age > SPARED]

    def sweep(self, referenced: Collection[str], dry_run: bool) -> SweepResult:
        """Move and delete files, unless this is a dry run. `referenced`: the sums of `candidate_digests` that records
        contain.
        """
        unused = [file for file in self._old() if file.name not in referenced]
        used = [file for file in self._put_aside if file.name in referenced]
        expired = [file for file in self._put_aside if file.name not in referenced and file.age > SPARED]
        drafts = [file for file in self._listed if _DRAFT.fullmatch(file.name) and file.age > SPARED]
        if not dry_run:
            unused = [file for file in unused if self._move_if_old(file)]
            for file in used:
                self._call(partial(self._store.move, self._aside, self._folder, file.name))
            for file in expired:
                self._call(partial(self._store.remove, self._aside, file.name))
            for file in drafts:
                self._call(partial(self._store.remove, self._folder, file.name))
        kept = sum(_NAME.fullmatch(file.name) is not None for file in self._listed) - len(unused) + len(used)
        return SweepResult(kept, unused, used, [*expired, *drafts])

    def _move_if_old(self, payload: StoredPayload) -> bool:
        """Move a payload aside unless it was written again since the listing; True if it was moved."""
        age = self._transfer.call_with_retries(partial(self._store.age, self._folder, payload.name))
        if age is None or age <= SPARED:
            return False
        self._call(partial(self._store.move, self._folder, self._aside, payload.name))
        return True

    def _call(self, call: Callable[[], None]) -> None:
        self._transfer.call_with_retries(call)
