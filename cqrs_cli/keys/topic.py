"""The records of `<agg>.keys`, and what a reader knows of the keys of one aggregate: a pure fold.

A record's key is the subject, its value the wrapped key or null:

    {"kid": "…", "master": "2026-11", "key": "<AES-SIV of 64 random bytes under the master key>"}

Two rules make caches of keys safe, however far behind they are and whatever compaction has removed:

1. An `Erased` names the key that it ends. Who has seen the event drops this key, and refuses it from then on.
2. A key that a reader does not know is erased only if he has seen the event, then asked for the high watermark of the
   keys, and read up to it. A key is committed with the first event that needs it, but the two may show one by one.
"""

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.sealing import DamagedSealError, DataKey, as_text, bound, from_text, library

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: The ways in which a reader takes a sealed value: it opens it, takes the placeholder, or reads more of the keys first.
Reading = Literal["open", "erased", "wait"]


#: A record of nobody's key, (value, subject): no subject is empty. It lets the records before it be compacted.
BEAT: tuple[None, bytes] = None, b""


class WrappedKey(Struct, frozen=True):
    """A data key under a master key: the value of a record."""

    kid: str
    master: str  # the name of the master key
    key: str


def wrap_key(cipher: "AESSIV", master: str, topic: str, subject: str, key: DataKey) -> WrappedKey:
    """The data key under the master key of this name, which `cipher` has."""
    closed = cipher.encrypt(key.secret, bound((topic, subject, key.kid)))
    return WrappedKey(key.kid, master, as_text(closed))


def unwrap_key(cipher: "AESSIV", topic: str, subject: str, wrapped: WrappedKey) -> DataKey:
    """The data key of a record; raises `DamagedSealError` if this master key does not open it here."""
    try:
        secret = cipher.decrypt(from_text(wrapped.key), bound((topic, subject, wrapped.kid)))
    except (ValueError, library().InvalidTag):
        raise DamagedSealError(f"the key {wrapped.kid} does not open") from None
    return DataKey(wrapped.kid, secret)


_decode = msgspec.json.Decoder(WrappedKey).decode


def key_value(wrapped: WrappedKey | None) -> bytes | None:
    """The value of a record; None, a tombstone, for a key that is gone."""
    return None if wrapped is None else encode_json(wrapped)


def read_key(value: bytes | None) -> WrappedKey | None:
    """The key in a record's value; raises `ValueError` for any other record."""
    if value is None:
        return None
    try:
        return _decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class KnownKeys(Struct, frozen=True):
    """The keys of one aggregate, as far as a reader or an owner knows them."""

    current: WrappedKey | None = None
    ended: frozenset[str] = frozenset()  # the ids that an `Erased` has named

    def with_record(self, wrapped: WrappedKey | None) -> "KnownKeys":
        """… after a record of the keys topic. A key that has ended stays out: a tombstone may be compacted away."""
        if wrapped is not None and wrapped.kid in self.ended:
            return self
        return replace(self, current=wrapped)

    def with_erased(self, kid: str) -> "KnownKeys":
        """… after an `Erased` that names this key."""
        current = None if self.current is not None and self.current.kid == kid else self.current
        return KnownKeys(current, self.ended | {kid})

    def reading(self, kid: str, read: int, end: int | None) -> Reading:
        """The way to read a value that is sealed with this key.

        `read`: the offset up to which the keys were read; `end`: their high watermark, which was asked for after the
        value had been seen, None if it has not been. The last stable offset is not enough: transactions may be open.
        """
        if self.current is not None and self.current.kid == kid:
            return "open"
        is_read = end is not None and read >= end
        return "erased" if kid in self.ended or is_read else "wait"

    def is_over(self, kid: str) -> bool:
        """True if what was sealed with this key is erased; for an owner, who knows all keys of his partition."""
        return self.current is None or self.current.kid != kid
