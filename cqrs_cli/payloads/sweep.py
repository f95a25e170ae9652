"""Removing payloads that no record refers to: first they are put aside, a day later they are deleted.

A payload may get its record while the records are read. So one that is put aside is still read by all, is brought
back if a record refers to it, and is deleted by a later sweep only: by then no record is on its way any more.
"""

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.store import ASIDE, StoredPayload
from cqrs_cli.payloads.transfer import PayloadTransfer, payload_transfer, unusable

#: Seconds that a payload is left alone after it was written, and after it was put aside. Much longer than a command or
#: transaction is on its way, and than the half hour in which a payload that is stored again is not written again.
SPARED = 24 * 3600.0

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DRAFT = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}", re.ASCII)


class Swept(NamedTuple):
    """The payloads of an aggregate: those that stay, and those that were moved or deleted."""

    kept: int
    put_aside: list[StoredPayload]
    brought_back: list[StoredPayload]
    deleted: list[StoredPayload]


class Sweep:
    """One folder of a store. Make it, read the records, then call `sweep`: records may be written at any time."""

    def __init__(self, place: PayloadStoreAddress, folder: str) -> None:
        """Lists the folder; raises `PayloadUnavailableError`."""
        self._transfer: PayloadTransfer = payload_transfer(place)
        self._store, self._folder, self._aside = self._transfer.store, folder, f"{folder}/{ASIDE}"
        self._listed = self._list(self._folder)
        self._put_aside = [one for one in self._list(self._aside) if _NAME.fullmatch(one.name)]

    def _list(self, folder: str) -> list[StoredPayload]:
        """The files of a folder, however long that takes: a store lists a thousand in a request."""
        try:
            return list(self._store.stored(folder))
        except OSError as error:
            raise unusable(self._store.uri, error) from error

    @property
    def questioned(self) -> set[str]:
        """The sums to be looked for in the records."""
        return {one.name for one in [*self._old(), *self._put_aside]}

    def _old(self) -> list[StoredPayload]:
        return [one for one in self._listed if _NAME.fullmatch(one.name) and one.age > SPARED]

    def sweep(self, named: Collection[str], dry_run: bool) -> Swept:
        """Move and delete, unless it is a dry run. `named`: the questioned sums that records refer to."""
        aside = [one for one in self._old() if one.name not in named]
        back = [one for one in self._put_aside if one.name in named]
        gone = [one for one in self._put_aside if one.name not in named and one.age > SPARED]
        drafts = [one for one in self._listed if _DRAFT.fullmatch(one.name) and one.age > SPARED]
        if not dry_run:
            aside = [one for one in aside if self._is_moved(one)]
            for one in back:
                self._ask(partial(self._store.move, self._aside, self._folder, one.name))
            for one in gone:
                self._ask(partial(self._store.remove, self._aside, one.name))
            for one in drafts:
                self._ask(partial(self._store.remove, self._folder, one.name))
        kept = sum(_NAME.fullmatch(one.name) is not None for one in self._listed) - len(aside) + len(back)
        return Swept(kept, aside, back, [*gone, *drafts])

    def _is_moved(self, one: StoredPayload) -> bool:
        """Put a payload aside, unless it was stored again meanwhile."""
        age = self._transfer.ask(partial(self._store.age, self._folder, one.name))
        if age is None or age <= SPARED:
            return False
        self._ask(partial(self._store.move, self._folder, self._aside, one.name))
        return True

    def _ask(self, call: Callable[[], None]) -> None:
        self._transfer.ask(call)
