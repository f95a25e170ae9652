"""The data keys of aggregates while a batch is decided: the batch's changes on top of the owner's keys."""

import os
from collections.abc import Callable

from msgspec import Struct

from cqrs_cli.core.personal.encrypted_data import decrypt_data, encrypt_with_key_of, has_encrypted_shape
from cqrs_cli.core.personal.encryption import KID_BYTES, SECRET_BYTES, DataKey, ValueLocation


class ErasedKeyError(Exception):
    """The key of an encrypted value was deleted: the personal data were erased."""


def random_key() -> DataKey:
    """Return a new data key. Its bytes are the only output of deciding that is not deterministic.

    An owner uses a new key only in a transaction that also writes the key to the keys topic.
    """
    return DataKey.of_random(os.urandom(KID_BYTES + SECRET_BYTES))


class BatchDataKeys:
    """The data keys of one aggregate type during a batch. `changed_keys`: subject → new key; None: the key is erased.

    `key_of` returns the key that a subject had before the batch; `key_of=None` if no subject has a key.
    """

    def __init__(
        self, aggregate: str, key_of: Callable[[str], DataKey | None] | None, new_key: Callable[[], DataKey]
    ) -> None:
        self.changed_keys: dict[str, DataKey | None] = {}
        self._aggregate, self._new_key = aggregate, new_key
        self._key_of = dict[str, DataKey]().get if key_of is None else key_of

    def active_key(self, subject: str) -> DataKey | None:
        """Return the present key of an aggregate; None if it has no encrypted value since its last erasure."""
        if subject in self.changed_keys:
            return self.changed_keys[subject]
        return self._key_of(subject)

    def drop_key(self, subject: str) -> None:
        """Remove the key of an aggregate that is erased."""
        self.changed_keys[subject] = None

    def encrypt(
        self, cls: type[Struct], data: bytes, subject: str, location: str, may_look_encrypted: bool = True
    ) -> bytes:
        """Return the JSON of a message with its personal members encrypted. The first encrypted value creates the key.

        Raises `ValueError` for a plain member with the shape of an encrypted value, because readers could not
        distinguish it. `location` is the location of the message, such as an event's id. Pass False for
        `may_look_encrypted` if the message cannot contain such a member.
        """
        if may_look_encrypted and has_encrypted_shape(data):
            raise ValueError("a member has the shape of an encrypted value")
        return encrypt_with_key_of(cls, data, self._key_or_new, (self._aggregate, subject, location, ""))

    def decrypt(self, cls: type[Struct], data: bytes, subject: str, location: str) -> bytes:
        """Return the decrypted JSON of a message; raises `ErasedKeyError` if its key is erased."""
        key = self.active_key(subject)

        def find_key(kid: str) -> DataKey:
            if key is None or key.kid != kid:
                raise ErasedKeyError
            return key

        return decrypt_data(cls, data, find_key, ValueLocation(self._aggregate, subject, location, ""))

    def _key_or_new(self, subject: str) -> DataKey:
        key = self.changed_keys[subject] if subject in self.changed_keys else self._key_of(subject)
        if key is None:
            self.changed_keys[subject] = key = self._new_key()
        return key
