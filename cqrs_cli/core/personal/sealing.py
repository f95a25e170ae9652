"""Sealing personal values: AES-SIV (RFC 5297), which needs no nonce. A value has the same bytes each time.

A sealed value stands where the plain one stood:

    {"$sealed": "<base64url of kid (8 bytes) ‖ SIV (16) ‖ ciphertext>"}

It is bound to its place: aggregate, subject, place in the log, field. So it opens nowhere else, and equal values do not
show. It names its key by a random id, its kid, never by a number.
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

#: Bytes of a key's id, of a data key (two of AES-256), and of what SIV adds.
KID_BYTES, SECRET_BYTES, SIV_BYTES = 8, 64, 16


#: The place of a state.
STATE = "state"

#: A place as `SealPlace` has it: a hot path needs no names.
PlaceParts: TypeAlias = tuple[str, str, str, str]

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
    """The place of a sealed value. `place`: an event's id, `command/<id>` for a parked command, or `STATE`."""

    aggregate: str
    subject: str
    place: str
    field: str  # its name in JSON


def bound(place: tuple[str, ...]) -> list[bytes]:
    """The associated data of what is sealed for a place: one text, its parts as a JSON array.

    One, since libraries of other languages take no more (Tink's), and each costs as much as the value.
    """
    return [encode_json(place)]


class DataKey:
    """A data key of one aggregate: it seals and opens its personal values."""

    # An owner has ten thousand ready, and each command meets another: small ones stay in the processor's cache.
    __slots__ = ("_cipher", "_kid", "_of_state", "kid", "secret")

    def __init__(self, kid: str, secret: bytes) -> None:
        self.kid, self.secret = kid, secret
        self._kid = b""
        self._cipher: AESSIV | None = None  # four kilobytes: made when it is first needed
        self._of_state: dict[str, tuple[bytes, PlaceParts, bytes]] | None = None  # by field

    def __repr__(self) -> str:
        return f"DataKey({self.kid!r})"

    @classmethod
    def of_random(cls, random: bytes) -> "DataKey":
        """The key that 72 random bytes make."""
        if len(random) != KID_BYTES + SECRET_BYTES:
            raise ValueError(f"a key is made of {KID_BYTES + SECRET_BYTES} random bytes, not {len(random)}")
        kid = random[:KID_BYTES]
        made = cls(as_text(kid), random[KID_BYTES:])
        made._kid = kid
        return made

    def seal(self, value: bytes, place: PlaceParts) -> bytes:
        """The JSON of the sealed value, from the JSON of the plain one.

        A state is sealed over and over with values that stay: the last ones are kept, with what they came to.
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
        """The JSON of the plain value; raises `NotSealedError`, `OtherKeyError` or `DamagedSealError`."""
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
