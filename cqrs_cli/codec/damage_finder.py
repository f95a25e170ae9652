"""Finds damaged encrypted values, for verification: it decrypts values with the active data keys of their subjects."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from cqrs_cli.core.personal.encrypted_data import encrypted_members
from cqrs_cli.core.personal.encryption import STATE, DataKey, DecryptionError, ValueLocation, kid_of
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.topic import WrappedKey

#: The number of decrypted data keys in the cache. An aggregate's next event needs its key again.
_CACHED_KEYS = 10_000


class DamageFinder:
    """Finds values that their own key does not decrypt. `find_key`: returns the active key of a subject in the keys
    topic, encrypted. `decrypt_key`: decrypts such a key with the keyring.
    """

    def __init__(
        self,
        aggregate: str,
        find_key: Callable[[str], WrappedKey | None],
        decrypt_key: Callable[[str, WrappedKey], DataKey],
    ) -> None:
        self._aggregate, self._find_key, self._decrypt = aggregate, find_key, decrypt_key
        self._data_key_or_problem = lru_cache(_CACHED_KEYS)(self._decrypt_key)

    def find_key_problem(self, subject: str, wrapped: WrappedKey) -> str | None:
        """Return why the keyring cannot decrypt a data key; None if it can."""
        key_or_problem = self._data_key_or_problem(subject, wrapped)
        return key_or_problem if isinstance(key_or_problem, str) else None

    def find_damaged_event_values(self, subject: str, event_id: str, data: bytes) -> Iterator[str]:
        """Yield a problem for each member of an event that uses the active key, but cannot be decrypted with it.

        The problems never contain personal data. If the keyring cannot decrypt the key, this method yields nothing:
        `find_key_problem` reports the key.
        """
        return self._find_damaged(subject, event_id, data)

    def find_damaged_state_values(self, subject: str, data: bytes) -> Iterator[str]:
        """Yield the problems of a state in a shard, as `find_damaged_event_values` does for an event."""
        return self._find_damaged(subject, STATE, data)

    def _decrypt_key(self, subject: str, wrapped: WrappedKey) -> DataKey | str:
        """Return the data key, or the reason why the keyring cannot decrypt it."""
        try:
            return self._decrypt(subject, wrapped)
        except ContradictionError as error:
            return error.message

    def _find_damaged(self, subject: str, location: str, data: bytes) -> Iterator[str]:
        """Yield a problem for each value that uses the active key, and cannot be decrypted with it."""
        members = encrypted_members(data)
        if not members or (wrapped := self._find_key(subject)) is None:
            return
        for name, value in members.items():
            try:
                if kid_of(value) != wrapped.kid:
                    continue
                data_key = self._data_key_or_problem(subject, wrapped)
                if isinstance(data_key, DataKey):
                    data_key.decrypt(value, ValueLocation(self._aggregate, subject, location, name))
            except DecryptionError as error:
                yield f"has a damaged value in {name!r}: {error}"
