"""Sealing personal values: AES-SIV (RFC 5297), which needs no nonce. A value has the same bytes each time.

A sealed value stands where the plain one stood:

    {"$sealed": "<base64url of kid (8 bytes) ‖ SIV (16) ‖ ciphertext>"}

It is bound to its place: aggregate, subject, place in the log, field. So it opens nowhere else, and equal values do not
show. It names its key by a random id, its kid, never by a number.
"""

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import read_members
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: Bytes of a key's id, of a data key (two of AES-256), and of what SIV adds.
KID_BYTES, SECRET_BYTES, SIV_BYTES = 8, 64, 16


_URLSAFE = bytes.maketrans(b"+/", b"-_")


class SealError(ValueError):
    """A sealed value cannot be opened. No message has a part of the value."""


class NotSealedError(SealError):
    """It has not the shape of a sealed value."""


class OtherKeyError(SealError):
    """It was sealed with another key, whose id is `kid`."""

    def __init__(self, kid: str, asked: str) -> None:
        super().__init__(f"it is sealed with key {kid}, not {asked}")
        self.kid = kid


class DamagedSealError(SealError):
    """It names this key and does not open: it was altered or moved, or the key is not what it was."""


class SealPlace(NamedTuple):
    """The place of a sealed value. `place`: an event's id, `command/<id>` for a parked command, or `state`."""

    aggregate: str
    subject: str
    place: str
    field: str  # its name in JSON

    def bound(self) -> list[bytes]:
        """The parts that a value is sealed with. SIV keeps them apart."""
        return [part.encode() for part in self]


class DataKey:
    """A data key of one aggregate: it seals and opens its personal values."""

    def __init__(self, kid: str, secret: bytes) -> None:
        self.kid, self.secret = kid, secret

    def __repr__(self) -> str:
        return f"DataKey({self.kid!r})"

    @classmethod
    def of_random(cls, random: bytes) -> "DataKey":
        """The key that 72 random bytes make."""
        if len(random) != KID_BYTES + SECRET_BYTES:
            raise ValueError(f"a key is made of {KID_BYTES + SECRET_BYTES} random bytes, not {len(random)}")
        return cls(as_text(random[:KID_BYTES]), random[KID_BYTES:])

    @cached_property
    def _kid(self) -> bytes:
        return from_text(self.kid)

    @cached_property
    def _cipher(self) -> "AESSIV":
        return siv(self.secret)

    def seal(self, value: bytes, place: SealPlace) -> bytes:
        """The JSON of the sealed value, from the JSON of the plain one."""
        return b'{"$sealed":"%b"}' % _spelt(self._kid + self._cipher.encrypt(value, place.bound()))

    def open(self, sealed: bytes, place: SealPlace) -> bytes:
        """The JSON of the plain value; raises `NotSealedError`, `OtherKeyError` or `DamagedSealError`."""
        kid, closed = _parts(sealed)
        if kid != self.kid:
            raise OtherKeyError(kid, self.kid)
        try:
            return self._cipher.decrypt(closed, place.bound())
        except library().InvalidTag:
            raise DamagedSealError(f"it does not open with key {kid}, which it names") from None


class _Sealed(Struct, forbid_unknown_fields=True, rename={"text": "$sealed"}):
    text: str


_decode = msgspec.json.Decoder(_Sealed).decode


def is_sealed(value: bytes) -> bool:
    """True if a value in JSON is an object with the one member `$sealed`, whatever that is."""
    try:
        return read_members(value).keys() == {"$sealed"}
    except ValueError:
        return False


def kid_of(sealed: bytes) -> str:
    """The id of the key that a sealed value names; raises `NotSealedError`."""
    return _parts(sealed)[0]


def _parts(sealed: bytes) -> tuple[str, bytes]:
    try:
        joined = from_text(_decode(sealed).text)
    except ValueError:  # msgspec's errors are
        raise NotSealedError("not a sealed value: it is no object with one text, `$sealed`") from None
    if len(joined) <= KID_BYTES + SIV_BYTES:
        raise NotSealedError(f"not a sealed value: it has {len(joined)} bytes")
    return as_text(joined[:KID_BYTES]), joined[KID_BYTES:]


def as_text(data: bytes) -> str:
    """Base64url without padding."""
    return _spelt(data).decode()


def _spelt(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URLSAFE, b"=")


def from_text(text: str) -> bytes:
    """The bytes of `as_text`; raises `ValueError` for any other text."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if as_text(data) != text:
        raise ValueError("not base64url without padding")
    return data


def siv(key: bytes) -> "AESSIV":
    """AES-SIV under a key of 32, 48 or 64 bytes."""
    return library().AESSIV(key)


class _Library(NamedTuple):
    """The parts of `cryptography` that are used: only aggregates with personal fields need them."""

    AESSIV: "type[AESSIV]"
    InvalidTag: type[Exception]


@cache
def library() -> _Library:
    """The library, loaded when it is first needed; raises `ConfigurationError` where it is not installed."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as error:
        raise ConfigurationError(
            f"personal fields are sealed with cryptography, which is not installed ({error})",
            "pip install 'cqrs-cli[personal]'",
        ) from None
    return _Library(AESSIV, InvalidTag)
