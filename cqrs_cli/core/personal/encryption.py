"""Encrypts personal values with AES-SIV (RFC 5297), which is deterministic: it needs no nonce.

This JSON object replaces the plain value:

    {"$sealed": "<base64url of key id (8 bytes) ‖ SIV (16) ‖ ciphertext>"}

The encryption is bound to the location of the value: aggregate, subject, location in the log, field. So a copied value
cannot be decrypted at another location, and equal values at different locations have different ciphertexts. The key id
is random, never a serial number.
"""

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: The bytes of a key id, of a data key (two AES-256 keys), and of the SIV.
KID_BYTES, SECRET_BYTES, SIV_BYTES = 8, 64, 16


#: `SealPlace.place` of a state.
STATE = "state"

#: The fields of a `SealPlace` as a plain tuple, which is cheaper on the hot path.
PlaceParts: TypeAlias = tuple[str, str, str, str]

_URLSAFE = bytes.maketrans(b"+/", b"-_")


class SealError(ValueError):
    """A value cannot be decrypted. No error message contains a part of the value."""


class NotSealedError(SealError):
    """The value does not have the shape of an encrypted value."""


class OtherKeyError(SealError):
    """The value was encrypted with another key, whose id is `kid`."""

    def __init__(self, kid: str, asked: str) -> None:
        super().__init__(f"it is sealed with key {kid}, not {asked}")
        self.kid = kid


class DamagedSealError(SealError):
    """Decryption fails although the value has the id of this key: value or key was altered, or the value was moved."""


class SealPlace(NamedTuple):
    """The location of an encrypted value: `SealPlace("customer", "c-42", "3/120/0", "name")`.

    `place` is an event's id, `command/<id>` for a deferred command, or `STATE`.
    """

    aggregate: str
    subject: str
    place: str
    field: str  # its name in JSON


def bound(place: tuple[str, ...]) -> list[bytes]:
    """Return the associated data for a location: a single text, the location as a JSON array.

    It is a single text because libraries of other languages (Tink) accept no more. Encrypting a further text would cost
    as much as the value.
    """
    return [encode_json(place)]


class DataKey:
    """The data key of one aggregate, which encrypts and decrypts its personal values."""

    # An owner keeps 10,000 keys, and each command uses another key: small objects stay in the CPU cache.
    __slots__ = ("_cipher", "_kid", "_of_state", "kid", "secret")

    def __init__(self, kid: str, secret: bytes) -> None:
        self.kid, self.secret = kid, secret
        self._kid = b""
        self._cipher: AESSIV | None = None  # 4 KB, so it is created on first use
        self._of_state: dict[str, tuple[bytes, PlaceParts, bytes]] | None = None  # by field of a state

    def __repr__(self) -> str:
        return f"DataKey({self.kid!r})"

    @classmethod
    def of_random(cls, random: bytes) -> "DataKey":
        """Return the key made of 72 random bytes: the key id, then the secret."""
        if len(random) != KID_BYTES + SECRET_BYTES:
            raise ValueError(f"a key is made of {KID_BYTES + SECRET_BYTES} random bytes, not {len(random)}")
        kid = random[:KID_BYTES]
        made = cls(as_text(kid), random[KID_BYTES:])
        made._kid = kid
        return made

    def seal(self, value: bytes, place: PlaceParts) -> bytes:
        """Return the JSON of the encrypted value; `value` is the JSON of the plain value.

        Most values of a state do not change from one encryption to the next, so the last result is kept for each field.
        """
        return self._sealed(value, place) if place[2] != STATE else self._sealed_again(value, place)

    def _sealed(self, value: bytes, place: PlaceParts) -> bytes:
        cipher = self._cipher or self._made()
        closed = cipher.encrypt(value, bound(place))
        return b'{"$sealed":"%b"}' % _spelt(self._kid + closed)

    def _sealed_again(self, value: bytes, place: PlaceParts) -> bytes:
        if self._of_state is None:
            self._of_state = {}
        before = self._of_state.get(place[3])
        if before is not None and before[0] == value and before[1] == place:
            return before[2]
        sealed = self._sealed(value, place)
        self._of_state[place[3]] = value, place, sealed
        return sealed

    def open(self, sealed: bytes, place: SealPlace) -> bytes:
        """Return the JSON of the plain value; raises `NotSealedError`, `OtherKeyError` or `DamagedSealError`."""
        kid, closed = _parts(sealed)
        if kid != self.kid:
            raise OtherKeyError(kid, self.kid)
        try:
            return self._made().decrypt(closed, bound(place))
        except library().InvalidTag:
            raise DamagedSealError(f"it does not open with key {kid}, which it names") from None

    def _made(self) -> "AESSIV":
        if self._cipher is None:
            self._cipher, self._kid = siv(self.secret), self._kid or from_text(self.kid)
        return self._cipher


class _Sealed(Struct, forbid_unknown_fields=True, rename={"text": "$sealed"}):
    text: str


_decode = msgspec.json.Decoder(_Sealed).decode


def is_sealed(value: bytes) -> bool:
    """True if a JSON value is an object whose only member is `$sealed`, with any content."""
    try:
        return read_members(value).keys() == {"$sealed"}
    except ValueError:
        return False


def kid_of(sealed: bytes) -> str:
    """Return the key id of an encrypted value; raises `NotSealedError`."""
    return _parts(sealed)[0]


def _parts(sealed: bytes) -> tuple[str, bytes]:
    try:
        joined = from_text(_decode(sealed).text)
    except ValueError:  # msgspec raises subclasses of `ValueError`
        raise NotSealedError("not a sealed value: it is no object with one text, `$sealed`") from None
    if len(joined) <= KID_BYTES + SIV_BYTES:
        raise NotSealedError(f"not a sealed value: it has {len(joined)} bytes")
    return as_text(joined[:KID_BYTES]), joined[KID_BYTES:]


def as_text(data: bytes) -> str:
    """Return Base64url without padding."""
    return _spelt(data).decode()


def _spelt(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URLSAFE, b"=")


def from_text(text: str) -> bytes:
    """Return the bytes of a text of `as_text`; raises `ValueError` for any other text."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if as_text(data) != text:
        raise ValueError("not base64url without padding")
    return data


def siv(key: bytes) -> "AESSIV":
    """Return the AES-SIV cipher for a key of 32, 48 or 64 bytes."""
    return library().AESSIV(key)


class _Library(NamedTuple):
    """The names imported from `cryptography`, which only aggregates with personal fields need."""

    AESSIV: "type[AESSIV]"
    InvalidTag: type[Exception]


@cache
def library() -> _Library:
    """Import `cryptography` on first use; raises `ConfigurationError` if it is not installed."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as error:
        raise ConfigurationError(
            f"personal fields are sealed with cryptography, which is not installed ({error})",
            "pip install 'cqrs-cli[personal]'",
        ) from None
    return _Library(AESSIV, InvalidTag)
