"""A keyring in a file: creation with the first KEK, and rotation, which puts a new KEK in front.

The old KEKs stay after the new KEK: they decrypt the data keys that owners have not re-wrapped yet.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.keys.keyring import parse_keyring, unreadable_file_error
from cqrs_cli.storage.private import atomic_write

_RIGHTS_HINT = "correct keyring, or the rights of the file and its folder"

#: Bytes of a new KEK: two keys of AES-256.
KEK_BYTES = 64


def create_keyring_file(path: Path, month: str, secret: bytes) -> str:
    """Create a keyring with one KEK, named after its month; return the name. An existing file stays unchanged.

    Raises `ConfigurationError` if the file exists or cannot be created.
    """
    with _replace_keyring(path) as file:
        if path.exists():
            raise ConfigurationError(
                f"{path} exists: it may contain a keyring", "to add a key-encryption key: cqrs keys rotate"
            )
        file.write(_document({month: _kek_text(secret)}))
    return month


def rotate_keyring_file(path: Path, month: str, secret: bytes) -> str:
    """Put a new KEK before the other KEKs; return its name. The file is replaced atomically, with the same mode and
    owner.

    Raises `ConfigurationError` if the file is not a keyring or cannot be replaced.
    """
    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise unreadable_file_error(path, error, _RIGHTS_HINT) from None
    with _replace_keyring(path) as file:  # from here on no other program replaces the file
        text, status = path.read_bytes(), path.stat()
        name = free_name(month, parse_keyring(text, f"file:{path}").names)
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o777)
        file.write(_document({name: _kek_text(secret), **json.loads(text)}))
    return name


def free_name(month: str, taken: Iterable[str]) -> str:
    """Return the name of a new KEK: its month, with a number if the name is taken, such as `2026-11-2`."""
    taken_names = set(taken)
    return next(
        name
        for count in range(1, len(taken_names) + 2)
        if (name := f"{month}-{count}" if count > 1 else month) not in taken_names
    )


@contextmanager
def _replace_keyring(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` when the block ends. It is synced to disk, because the loss of a KEK is the
    loss of all data keys that it encrypts.

    Inside the block the file has a fixed name in the same folder, so only one program at a time can replace the
    keyring.
    """
    new_path = path.with_name(f".{path.name}.new")
    try:
        with atomic_write(path, new_path.name) as file:
            yield file
    except FileExistsError:
        raise ConfigurationError(
            f"{new_path} exists: another program is writing the keyring, or died while it wrote the file",
            "remove the file if no such program is running",
        ) from None
    except OSError as error:
        raise ConfigurationError(
            f"the keyring {path} cannot be written: {error.strerror}", _RIGHTS_HINT
        ) from None


def _kek_text(secret: bytes) -> str:
    if len(secret) != KEK_BYTES:
        raise ValueError(f"a key-encryption key has {KEK_BYTES} bytes, not {len(secret)}")
    return b64encode(secret).decode()


def _document(keks: dict[str, str]) -> bytes:
    return json.dumps(keks, indent=2).encode() + b"\n"
