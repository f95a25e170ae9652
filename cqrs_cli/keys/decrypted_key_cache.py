"""A cache of decrypted data keys in memory, for owners and readers. `SubjectKeys` determines which key is active."""

from collections import OrderedDict
from collections.abc import Callable

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import SubjectKeys

#: The maximal number of decrypted keys in memory; a key takes a kilobyte.
MAX_KEYS = 10_000


class DecryptedKeyCache:
    """The active data keys of one keys topic, each decrypted when it is first needed.

    `keys_of`: returns the keys of a subject, as far as the topic was read; when they change, call `forget`.
    `keyring`: returns the keyring; it is not called before a key is needed. `limit`: the maximal number of keys in
    memory.
    """

    def __init__(
        self,
        topic: str,
        keys_of: Callable[[str], SubjectKeys],
        keyring: Callable[[], Keyring],
        limit: int = MAX_KEYS,
    ) -> None:
        self._topic, self._keys_of, self._keyring, self._limit = topic, keys_of, keyring, limit
        self._keys: OrderedDict[str, DataKey | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def key_of(self, subject: str) -> DataKey | None:
        """Return the active key of a subject, or None; raises `ContradictionError` if the keyring cannot decrypt
        the key.
        """
        try:
            return self._keys[subject]
        except KeyError:
            pass
        wrapped = self._keys_of(subject).current
        key = None if wrapped is None else self._keyring().unwrap(self._topic, subject, wrapped)
        self.put(subject, key)
        return key

    def find(self, subject: str, kid: str) -> DataKey | None:
        """Return the key with this id if it is the active key of the subject. Else return None, and decrypt nothing."""
        key = self._keys.get(subject)
        if key is None and not self._keys_of(subject).is_erased(kid):
            key = self.key_of(subject)
        return key if key is not None and key.kid == kid else None

    def put(self, subject: str, key: DataKey | None) -> None:
        """Add the active key of a subject; None if it has no key."""
        self._keys[subject] = key
        if len(self._keys) > self._limit:
            self._keys.popitem(last=False)

    def forget(self, subject: str) -> None:
        """Drop the key of a subject, because its keys have changed."""
        self._keys.pop(subject, None)

    def clear(self) -> None:
        """Drop all keys."""
        self._keys.clear()
