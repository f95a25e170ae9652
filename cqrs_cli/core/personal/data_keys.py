"""The data keys of aggregates while a batch is decided: the batch's changes on top of the owner's keys."""

import os
from collections.abc import Callable

from msgspec import Struct

from cqrs_cli.core.personal.encrypted_data import has_seals, open_data, seal_needed
from cqrs_cli.core.personal.encryption import KID_BYTES, SECRET_BYTES, DataKey, SealPlace

#: Returns the present data key of an aggregate by its id; None if it has no key.
KeyOf = Callable[[str], DataKey | None]

#: The `KeyOf` of aggregates without personal fields.
no_key: KeyOf = dict[str, DataKey]().get


class ErasedKeyError(Exception):
    """The key of an encrypted value does not exist any more: the person was erased."""


def random_key() -> DataKey:
    """Return a new data key. Its bytes are the only output of deciding that is not deterministic.

    An owner uses a new key only in a transaction that also writes the key to the keys topic.
    """
    return DataKey.of_random(os.urandom(KID_BYTES + SECRET_BYTES))


class DataKeys:
    """The data keys of one aggregate type. `changed` maps a subject to its new key, or to None if its key is erased."""

    def __init__(self, aggregate: str, key_of: KeyOf, new_key: Callable[[], DataKey]) -> None:
        self.changed: dict[str, DataKey | None] = {}
        self._aggregate, self._key_of, self._new_key = aggregate, key_of, new_key

    def in_force(self, subject: str) -> DataKey | None:
        """Return the present key of an aggregate; None if it has no encrypted value since its last erasure."""
        if subject in self.changed:
            return self.changed[subject]
        return self._key_of(subject)

    def end(self, subject: str) -> None:
        """Drop the key of an aggregate that is erased."""
        self.changed[subject] = None

    def sealed(
        self, cls: type[Struct], data: bytes, subject: str, place: str, may_look_sealed: bool = True
    ) -> bytes:
        """Return the JSON of a message with its personal members encrypted. The first encrypted value creates the key.

        Raises `ValueError` for a plain member with the shape of an encrypted value, because readers could not
        distinguish it. Pass False for `may_look_sealed` if the message cannot contain such a member.
        """
        if may_look_sealed and has_seals(data):
            raise ValueError("a member has the shape of a sealed value")
        return seal_needed(cls, data, self._needed, (self._aggregate, subject, place, ""))

    def opened(self, cls: type[Struct], data: bytes, subject: str, place: str) -> bytes:
        """Return the decrypted JSON of a message; raises `ErasedKeyError` if its key is erased."""
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
