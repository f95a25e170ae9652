"""The data keys of aggregates while a batch is decided: what it changed, over what the owner knows."""

import os
from collections.abc import Callable

from msgspec import Struct

from cqrs_cli.core.personal.sealed_data import has_seals, open_data, seal_needed
from cqrs_cli.core.personal.sealing import KID_BYTES, SECRET_BYTES, DataKey, SealPlace

#: The key of an aggregate that is in force, by its id.
KeyOf = Callable[[str], DataKey | None]

#: For aggregates that have none.
no_key: KeyOf = dict[str, DataKey]().get


class ErasedKeyError(Exception):
    """The key that a sealed value names is gone: its person was erased."""


def random_key() -> DataKey:
    """A new data key. Only these bytes are not repeatable, and the log has them once they count."""
    return DataKey.of_random(os.urandom(KID_BYTES + SECRET_BYTES))


class DataKeys:
    """The keys of the aggregates of one name. `changed` is the last word of the batch on each subject: None if its key
    has ended.
    """

    def __init__(self, aggregate: str, key_of: KeyOf, new_key: Callable[[], DataKey]) -> None:
        self.changed: dict[str, DataKey | None] = {}
        self._aggregate, self._key_of, self._new_key = aggregate, key_of, new_key

    def in_force(self, subject: str) -> DataKey | None:
        """The key that seals what is written of an aggregate; None if nothing was sealed since it was erased."""
        if subject in self.changed:
            return self.changed[subject]
        return self._key_of(subject)

    def end(self, subject: str) -> None:
        """Drop the key of an aggregate: it is erased."""
        self.changed[subject] = None

    def sealed(
        self, cls: type[Struct], data: bytes, subject: str, place: str, may_look_sealed: bool = True
    ) -> bytes:
        """The JSON of a message to be written, with its personal members sealed; the first ones make the key.

        Raises `ValueError` if it has a member that looks sealed: nobody could tell it from one that is. False for
        `may_look_sealed` if it has none.
        """
        if may_look_sealed and has_seals(data):
            raise ValueError("a member has the shape of a sealed value")
        return seal_needed(cls, data, self._needed, (self._aggregate, subject, place, ""))

    def opened(self, cls: type[Struct], data: bytes, subject: str, place: str) -> bytes:
        """The JSON of a message that an owner has sealed; raises `ErasedKeyError` if its key is gone."""
        key = self.in_force(subject)

        def find(kid: str) -> DataKey:
            if key is None or key.kid != kid:
                raise ErasedKeyError
            return key

        return open_data(cls, data, find, SealPlace(self._aggregate, subject, place, ""))

    def _needed(self, subject: str) -> DataKey:
        key = self.changed[subject] if subject in self.changed else self._key_of(subject)
        if key is None:
            self.changed[subject] = key = self._new_key()
        return key
