"""The keyring: the key-encryption keys (KEK), which encrypt the data keys. Its holder can read personal fields.

The keyring is a JSON object from key names to keys in Base64, the current KEK first:

    {"2026-11": "…", "2025-11": "…"}

Its address is `file:PATH`, `env:NAME` or `exec:COMMAND`. The command prints the keyring; it may be the tool of a key
service. No error message contains a part of a key.
"""

import json
import os
import shlex
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from cqrs_cli.core.personal.encryption import DamagedValueError, DataKey, aes_siv
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.keys.topic import WrappedKey, unwrap_key, wrap_key

#: The sizes of a KEK that AES-SIV accepts, in bytes.
SIZES = (32, 48, 64)

#: Timeout in seconds for a command that prints the keyring.
COMMAND_TIMEOUT = 30.0

_FORM = 'write {"NAME": "KEY IN BASE64", …} with keys of 32, 48 or 64 random bytes, the current key first'
_RUN_HINT = "run it by hand: it must print the keyring, and nothing else"
_ADDRESS_FORM = "write file:PATH, env:NAME or exec:COMMAND"


class Keyring:
    """KEKs by name; the first is the current KEK."""

    def __init__(self, keks: Mapping[str, bytes], reread: "Callable[[], Keyring] | None" = None) -> None:
        """`reread` loads the keyring again: `cqrs keys rotate` may have added a KEK."""
        self._ciphers = {name: aes_siv(kek) for name, kek in keks.items()}
        self.current = next(iter(self._ciphers))
        self._reread = reread

    def __repr__(self) -> str:
        return f"Keyring({list(self._ciphers)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the KEKs, the current KEK first."""
        return tuple(self._ciphers)

    def wrap(self, topic: str, subject: str, key: DataKey) -> WrappedKey:
        """Encrypt a data key with the current KEK, for its record in a keys topic."""
        return wrap_key(self._ciphers[self.current], self.current, topic, subject, key)

    def unwrap(self, topic: str, subject: str, wrapped: WrappedKey) -> DataKey:
        """Decrypt the data key of a record; raises `ContradictionError` if no KEK of the keyring decrypts it."""
        if not self._has_kek(wrapped.kek_name):
            raise _missing_kek(f"key {wrapped.kid} of {topic} is", wrapped.kek_name)
        cipher = self._ciphers[wrapped.kek_name]
        try:
            return unwrap_key(cipher, topic, subject, wrapped)
        except DamagedValueError:
            raise ContradictionError(
                f"key {wrapped.kid} of {topic} cannot be decrypted with the key-encryption key {wrapped.kek_name!r}",
                "the keyring has another key under this name, or the record was altered",
            ) from None

    def check_keks(self, topic: str, kek_names: Iterable[str]) -> None:
        """Raise `ContradictionError` if the keyring lacks one of these KEKs, which a keys topic uses."""
        for kek_name in kek_names:
            if not self._has_kek(kek_name):
                raise _missing_kek(f"keys of {topic} are", kek_name)

    def _has_kek(self, kek_name: str) -> bool:
        """Return True if the keyring has this KEK. Before it returns False, it reads the keyring again."""
        if kek_name not in self._ciphers and self._reread is not None:
            with suppress(ConfigurationError):
                keyring = self._reread()
                self._ciphers, self.current = keyring._ciphers, keyring.current
        return kek_name in self._ciphers


class MissingKekError(ContradictionError):
    """The keyring lacks the KEK of a data key."""

    is_permanent = True


def _missing_kek(encrypted_keys: str, kek_name: str) -> ContradictionError:
    """Return the error for a missing KEK. `encrypted_keys`: the subject of the message, such as "keys of customer.keys
    are".
    """
    return MissingKekError(
        f"{encrypted_keys} under the key-encryption key {kek_name!r}, which is not in the keyring",
        "put this key back into the keyring",
    )


def load_keyring(address: str, root: Path = Path()) -> Keyring:
    """Load the keyring at an address; the path of a file is relative to `root`.

    Raises `ConfigurationError`, whose hint names the correction.
    """
    kind, _, location = address.partition(":")
    text: str | bytes
    match kind:
        case "file" if location:
            text = _read_file(root / location)
        case "env" if location:
            text = _read_environment(location)
        case "exec" if location:
            text = _run_command(location)
        case _:
            raise ConfigurationError("the setting keyring does not name a keyring", _ADDRESS_FORM)
    return parse_keyring(text, address, partial(load_keyring, address, root))


def parse_keyring(text: str | bytes, address: str, reread: Callable[[], Keyring] | None = None) -> Keyring:
    """Parse a keyring from a JSON document; `address`: its address for errors. Raises `ConfigurationError`.

    `reread` loads the keyring again at a later time.
    """
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)  # a dict would drop a repeated name
        if not isinstance(pairs, tuple):
            raise ValueError
        keks = {name: b64decode(key, validate=True) for name, key in pairs}
    except (ValueError, TypeError, RecursionError):
        raise ConfigurationError(f"{shown_address(address)} does not contain a keyring", _FORM) from None
    if not keks or len(keks) < len(pairs):
        raise ConfigurationError(
            f"the keyring of {shown_address(address)} has no keys, or two keys with the same name", _FORM
        )
    for number, (name, kek) in enumerate(keks.items(), 1):  # the error omits the name: it may be a key
        if not name or len(kek) not in SIZES:
            raise ConfigurationError(
                f"key {number} in the keyring of {shown_address(address)} has {len(kek)} bytes, or no name",
                _FORM,
            )
    return Keyring(keks, reread)


def unreadable_file_error(path: Path, error: OSError, hint: str) -> ConfigurationError:
    """Return the error for a keyring file that cannot be read. `hint`: the remedy unless the file is missing."""
    if isinstance(error, FileNotFoundError):
        hint = "create it: cqrs keys init, or correct keyring"
    return ConfigurationError(f"the keyring {path} cannot be read: {error.strerror}", hint)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable_file_error(path, error, "correct keyring") from None


def _read_environment(name: str) -> str:
    if name not in os.environ:
        raise ConfigurationError(f"the variable {name} with the keyring is not set", "set it")
    return os.environ[name]


def _run_command(command: str) -> bytes:
    """Return the output of a command, which runs without a shell."""
    try:
        process = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=COMMAND_TIMEOUT,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise ConfigurationError(
            f"the command of keyring ended with exit code {error.returncode}", _RUN_HINT
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            f"the command of keyring took more than {COMMAND_TIMEOUT:g} s", _RUN_HINT
        ) from None
    except (OSError, ValueError, IndexError) as error:  # IndexError: the command is empty
        raise ConfigurationError(f"the command of keyring cannot be run: {error}", _RUN_HINT) from None
    return process.stdout


def shown_address(address: str) -> str:
    """Return an address for messages, without the arguments of a command, which may be secret."""
    kind, _, location = address.partition(":")
    return f"{kind}:{location.split()[0]} …" if kind == "exec" and len(location.split()) > 1 else address
