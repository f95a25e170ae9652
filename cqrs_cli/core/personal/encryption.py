"""Encrypts personal values with AES-SIV (RFC 5297), which is deterministic: it needs no nonce.

This JSON object replaces the plain value:

    {"$sealed": "<base64url of key id (8 bytes) ‖ SIV (16) ‖ ciphertext>"}

The encryption is bound to the location of the value: aggregate, subject, location in the log, field. So a copied value
cannot be decrypted elsewhere, and equal values at different locations have different ciphertexts. Key ids are random.
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

#: The sizes in bytes of a key id, of a data key (two AES-256 keys), and of the SIV.
KID_BYTES, SECRET_BYTES, SIV_BYTES = 8, 64, 16

#: `ValueLocation.message` of a state.
STATE = "state"

#: The fields of a `ValueLocation` as a plain tuple, which is cheaper on the hot path.
LocationParts: TypeAlias = tuple[str, str, str, str]

_URLSAFE = bytes.maketrans(b"+/", b"-_")


class DecryptionError(ValueError):
    """A value cannot be decrypted. No error message contains a part of the value."""


class NotEncryptedError(DecryptionError):
    """The value does not have the shape of an encrypted value."""


class OtherKeyError(DecryptionError):
    """The value was encrypted with another key, whose id is `kid`."""

    def __init__(self, kid: str, own_kid: str) -> None:
        super().__init__(f"it is encrypted with key {kid}, not {own_kid}")
        self.kid = kid


class DamagedValueError(DecryptionError):
    """A value has the id of this key, but the key does not decrypt it: one of them was altered, or the value was moved
    from another location.
    """


class ValueLocation(NamedTuple):
    """The location of an encrypted value: `ValueLocation("customer", "c-42", "3/120/0", "name")`.

    `message` is the id of an event, `command/<id>` for a deferred command, or `STATE`.
    """

    aggregate: str
    subject: str
    message: str
    field: str  # its name in JSON


def associated_data(location: tuple[str, ...]) -> list[bytes]:
    """Return the associated data for a location: the location as a JSON array, in a single text.

    Some libraries of other languages (Tink) accept only one text. Also, the cipher would take as long for each further
    text as for the value.
    """
    return [encode_json(location)]


class DataKey:
    """The data key of one aggregate, which encrypts and decrypts its personal values."""

    # An owner keeps 10,000 keys, and each command uses another key: small objects stay in the CPU cache.
    __slots__ = ("_cipher", "_encrypted_state_fields", "_kid_bytes", "kid", "secret")

    def __init__(self, kid: str, secret: bytes) -> None:
        self.kid, self.secret = kid, secret
        self._kid_bytes = b""
        self._cipher: AESSIV | None = None  # 4 KB, so it is created on first use
        #: By field of a state: the last plain value, its location, and the encrypted value.
        self._encrypted_state_fields: dict[str, tuple[bytes, LocationParts, bytes]] | None = None

    def __repr__(self) -> str:
        return f"DataKey({self.kid!r})"

    @classmethod
    def of_random(cls, random: bytes) -> "DataKey":
        """Return the key made of 72 random bytes: the key id, then the secret."""
        if len(random) != KID_BYTES + SECRET_BYTES:
            raise ValueError(f"a key needs {KID_BYTES + SECRET_BYTES} random bytes, found {len(random)}")
        kid = random[:KID_BYTES]
        key = cls(to_base64url(kid), random[KID_BYTES:])
        key._kid_bytes = kid
        return key

    def encrypt(self, value: bytes, location: LocationParts) -> bytes:
        """Return the JSON of the encrypted value; `value` is the JSON of the plain value.

        Most values of a state do not change from one encryption to the next, so the last result is kept for each field.
        """
        return (
            self._encrypt(value, location)
            if location[2] != STATE
            else self._encrypt_state_field(value, location)
        )

    def _encrypt(self, value: bytes, location: LocationParts) -> bytes:
        cipher = self._cipher or self._cipher_of_secret()
        ciphertext = cipher.encrypt(value, associated_data(location))
        return b'{"$sealed":"%b"}' % _base64url_bytes(self._kid_bytes + ciphertext)

    def _encrypt_state_field(self, value: bytes, location: LocationParts) -> bytes:
        if self._encrypted_state_fields is None:
            self._encrypted_state_fields = {}
        cached = self._encrypted_state_fields.get(location[3])
        if cached is not None and cached[0] == value and cached[1] == location:
            return cached[2]
        encrypted = self._encrypt(value, location)
        self._encrypted_state_fields[location[3]] = value, location, encrypted
        return encrypted

    def decrypt(self, value: bytes, location: ValueLocation) -> bytes:
        """Return the JSON of the plain value; raises `NotEncryptedError`, `OtherKeyError` or `DamagedValueError`."""
        kid, ciphertext = _split_value(value)
        if kid != self.kid:
            raise OtherKeyError(kid, self.kid)
        try:
            return self._cipher_of_secret().decrypt(ciphertext, associated_data(location))
        except library().InvalidTag:
            raise DamagedValueError(f"it has the id of key {kid}, but this key does not decrypt it") from None

    def _cipher_of_secret(self) -> "AESSIV":
        if self._cipher is None:
            self._cipher, self._kid_bytes = aes_siv(self.secret), self._kid_bytes or from_base64url(self.kid)
        return self._cipher


class _EncryptedValue(Struct, forbid_unknown_fields=True, rename={"text": "$sealed"}):
    text: str


_decode = msgspec.json.Decoder(_EncryptedValue).decode


def is_encrypted(value: bytes) -> bool:
    """True if a JSON value is an object whose only member is `$sealed`, with any content."""
    try:
        return read_members(value).keys() == {"$sealed"}
    except ValueError:
        return False


def kid_of(value: bytes) -> str:
    """Return the key id of an encrypted value; raises `NotEncryptedError`."""
    return _split_value(value)[0]


def _split_value(value: bytes) -> tuple[str, bytes]:
    try:
        id_and_ciphertext = from_base64url(_decode(value).text)
    except ValueError:  # msgspec raises subclasses of `ValueError`
        raise NotEncryptedError(
            "not an encrypted value: it must be an object with only the text `$sealed`"
        ) from None
    if len(id_and_ciphertext) <= KID_BYTES + SIV_BYTES:
        raise NotEncryptedError(f"not an encrypted value: it has {len(id_and_ciphertext)} bytes")
    return to_base64url(id_and_ciphertext[:KID_BYTES]), id_and_ciphertext[KID_BYTES:]


def to_base64url(data: bytes) -> str:
    """Return Base64url without padding."""
    return _base64url_bytes(data).decode()


def _base64url_bytes(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URLSAFE, b"=")


def from_base64url(text: str) -> bytes:
    """Return the bytes of Base64url text without padding; raises `ValueError` for any other text."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(data) != text:
        raise ValueError("not base64url without padding")
    return data


def aes_siv(key: bytes) -> "AESSIV":
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
            f"personal fields are encrypted with cryptography, which is not installed ({error})",
            "pip install 'cqrs-cli[personal]'",
        ) from None
    return _Library(AESSIV, InvalidTag)
