"""The records of the topic `<agg>.keys`, and their pure fold: the known keys of one aggregate id (the subject).

A record's key is the subject; its value is the wrapped data key, or null as a tombstone:

    {"kid": "…", "master": "2026-11", "key": "<AES-SIV of 64 random bytes under the KEK>"}

Two rules make caches of keys safe, regardless of their lag and of the records that compaction has removed:

1. An `Erased` event names the key that it ends. A reader that has read the event drops this key, and never uses it
   again.
2. A reader treats an unknown key as erased only after three steps: it has read the event that uses the key, then
   requested the high watermark of the keys topic, then read the keys up to this watermark. A key is committed in one
   transaction with the first event that needs it, but the two records may become visible one after the other.
"""

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import (
    KID_BYTES,
    SECRET_BYTES,
    SIV_BYTES,
    DamagedValueError,
    DataKey,
    associated_data,
    from_base64url,
    library,
    to_base64url,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: How a reader treats an encrypted value: it decrypts or redacts the value, or it has to read more keys first.
Treatment = Literal["decrypt", "redact", "read more"]

#: The compaction tick, as (value, record key): a new record lets Kafka compact the earlier records. Its record key is
#: empty, unlike every aggregate id; its value is null, so that compaction removes the tick, too.
COMPACTION_TICK: tuple[None, bytes] = None, b""


class WrappedKey(Struct, frozen=True, rename={"kek_name": "master"}):
    """The value of a record: a data key, encrypted with a KEK."""

    kid: str
    kek_name: str  # `master` in JSON
    key: str


def wrap_key(cipher: "AESSIV", kek_name: str, topic: str, subject: str, key: DataKey) -> WrappedKey:
    """Encrypt a data key with the KEK of `cipher`, for the record of `subject` in `topic`."""
    encrypted = cipher.encrypt(key.secret, associated_data((topic, subject, key.kid)))
    return WrappedKey(key.kid, kek_name, to_base64url(encrypted))


def unwrap_key(cipher: "AESSIV", topic: str, subject: str, wrapped: WrappedKey) -> DataKey:
    """Decrypt the data key of a record; raises `DamagedValueError` if this KEK does not decrypt it for this subject."""
    try:
        secret = cipher.decrypt(from_base64url(wrapped.key), associated_data((topic, subject, wrapped.kid)))
    except (ValueError, library().InvalidTag):
        raise DamagedValueError(f"the key {wrapped.kid} cannot be unwrapped") from None
    return DataKey(wrapped.kid, secret)


_decode = msgspec.json.Decoder(WrappedKey).decode


def key_value(wrapped: WrappedKey | None) -> bytes | None:
    """Return the value of a key's record; None, a tombstone, if the subject has no key any more."""
    return None if wrapped is None else encode_json(wrapped)


def read_key(value: bytes | None) -> WrappedKey | None:
    """Parse the value of a record; None for a tombstone. Raises `ValueError` if it is not a key."""
    if value is None:
        return None
    try:
        return _decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_written_key(record: Record) -> tuple[str, WrappedKey | None]:
    """Return the aggregate id and the data key of a record. The data key is None for a tombstone.

    Raises `ValueError` for a record that no owner writes.
    """
    subject, wrapped = (record.key or b"").decode(), read_key(record.value)
    if wrapped is None:
        return subject, None
    if not subject:
        raise ValueError("it has no aggregate id")
    sizes = len(from_base64url(wrapped.kid)), len(from_base64url(wrapped.key))
    if sizes != (KID_BYTES, SIV_BYTES + SECRET_BYTES):
        raise ValueError(f"its id has {sizes[0]} bytes, and its encrypted key {sizes[1]} bytes")
    if record.value != key_value(wrapped):
        raise ValueError("its JSON has another form than an owner writes")
    return subject, wrapped


class SubjectKeys(Struct, frozen=True):
    """The keys of one aggregate id, as far as a reader or an owner has read the keys topic."""

    current: WrappedKey | None = None  # the active key
    ended: frozenset[str] = frozenset()  # ids of keys that an `Erased` has named

    def with_record(self, wrapped: WrappedKey | None) -> "SubjectKeys":
        """Return the keys after one more record of the topic. A key that has ended is ignored, because compaction may
        have removed its tombstone.
        """
        if wrapped is not None and wrapped.kid in self.ended:
            return self
        return replace(self, current=wrapped)

    def with_erased(self, kid: str) -> "SubjectKeys":
        """Return the keys after an `Erased` that names this key."""
        current = None if self.current is not None and self.current.kid == kid else self.current
        return SubjectKeys(current, self.ended | {kid})

    def treatment(self, kid: str, read_until: int, end: int | None) -> Treatment:
        """Return how to treat a value that is encrypted with this key.

        `read_until`: the next offset to read in the keys topic. `end`: the high watermark of the keys topic, requested
        after the value was read; None if it was requested before. The last stable offset is not enough, because the
        key may be in an open transaction.
        """
        if self.current is not None and self.current.kid == kid:
            return "decrypt"
        is_fully_read = end is not None and read_until >= end
        return "redact" if kid in self.ended or is_fully_read else "read more"

    def is_erased(self, kid: str) -> bool:
        """True if this key is not the active key. For an owner, which knows all keys of its partition, values with this
        key are then erased.
        """
        return self.current is None or self.current.kid != kid
