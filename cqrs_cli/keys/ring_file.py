"""A ring in a file: made with its first master key, and given another one in front when master keys rotate.

The old ones stay behind it: what they have wrapped is opened with them until owners have wrapped it anew.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.keys.ring import read_ring
from cqrs_cli.storage.private import replaced

#: Bytes of a new master key: two keys of AES-256.
MASTER_BYTES = 64


def make_ring_file(path: Path, month: str, secret: bytes) -> str:
    """Make a ring of one master key, called by its month; gives the name. A file that is there stays as it is.

    Raises `ConfigurationError` if there is one, or none can be made.
    """
    with _written(path) as file:
        if path.exists():
            raise ConfigurationError(
                f"{path} exists: it may hold a ring", "another master key: cqrs keys rotate"
            )
        file.write(_document({month: _text(secret)}))
    return month


def rotate_ring_file(path: Path, month: str, secret: bytes) -> str:
    """Put a new master key in front; gives its name. The file is replaced whole, with its rights and its owner.

    Raises `ConfigurationError` for a file that is not a ring, and where it cannot be replaced.
    """
    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise _cannot("read", path, error) from None
    with _written(path) as file:  # what is read from here on nobody else replaces
        text, status = path.read_bytes(), path.stat()
        name = free_name(month, read_ring(text, f"file:{path}").names)
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o777)
        file.write(_document({name: _text(secret), **json.loads(text)}))
    return name


def free_name(month: str, taken: Iterable[str]) -> str:
    """The name of a new master key: its month, with a number if that is taken."""
    known = set(taken)
    return next(
        name
        for count in range(1, len(known) + 2)
        if (name := f"{month}-{count}" if count > 1 else month) not in known
    )


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends, and then is on the disk: a master key that was used
    and is gone has lost all that it has wrapped.

    The new file lies beside it until then, so that only one program at a time can replace it.
    """
    partial = path.with_name(f".{path.name}.new")
    try:
        with replaced(path, partial.name) as file:
            yield file
    except FileExistsError:
        raise ConfigurationError(
            f"{partial} exists: another program writes the ring, or one has died",
            "remove it if none is at work",
        ) from None
    except OSError as error:
        raise _cannot("written", path, error) from None


def _text(secret: bytes) -> str:
    if len(secret) != MASTER_BYTES:
        raise ValueError(f"a master key has {MASTER_BYTES} bytes, not {len(secret)}")
    return b64encode(secret).decode()


def _document(masters: dict[str, str]) -> bytes:
    return json.dumps(masters, indent=2).encode() + b"\n"


def _cannot(be: str, path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"the ring of keys {path} cannot be {be}: {error.strerror}",
        "correct personal_keys, or the rights of the file and its folder",
    )
