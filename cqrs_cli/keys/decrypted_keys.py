"""The decrypted data keys of owners and readers, in memory. A `KeyTable` decides which key is in force."""

from collections import OrderedDict
from collections.abc import Callable

from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import KeyTable

#: The maximal number of decrypted keys in memory; a key takes a kilobyte.
MAX_KEYS = 10_000


class DecryptedKeys:
    """The data keys of one keys topic, each decrypted when it is first needed.

    `table_of`: returns the keys of an aggregate, as far as the topic was read; call `forget` when they change.
    `keyring`: returns the keyring; it is not called before a key is needed. `limit`: the maximal number of keys in
    memory.
    """

    def __init__(
        self,
        topic: str,
        table_of: Callable[[str], KeyTable],
        keyring: Callable[[], Keyring],
        limit: int = MAX_KEYS,
    ) -> None:
        self._topic, self._table_of, self._keyring, self._limit = topic, table_of, keyring, limit
        self._keys: OrderedDict[str, DataKey | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def key_of(self, subject: str) -> DataKey | None:
        """Return the key in force of an aggregate, or None; raises `ContradictionError` if the keyring cannot decrypt
        the key.
        """
        try:
            return self._keys[subject]
        except KeyError:
            pass
        wrapped = self._table_of(subject).current
        key = None if wrapped is None else self._keyring().unwrap(self._topic, subject, wrapped)
        self.put(subject, key)
        return key

    def find(self, subject: str, kid: str) -> DataKey | None:
        """Return the key with this id if it is in force, else None. A key that is not in force is not decrypted."""
        key = self._keys.get(subject)
        if key is None and not self._table_of(subject).is_erased(kid):
            key = self.key_of(subject)
        return key if key is not None and key.kid == kid else None

    def put(self, subject: str, key: DataKey | None) -> None:
        """Add the key in force of an aggregate; None if it has no key."""
        self._keys[subject] = key
        if len(self._keys) > self._limit:
            self._keys.popitem(last=False)

    def forget(self, subject: str) -> None:
        """Drop the key of an aggregate, because its keys have changed."""
        self._keys.pop(subject, None)

    def clear(self) -> None:
        """Drop all keys."""
        self._keys.clear()
