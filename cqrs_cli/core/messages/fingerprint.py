"""A fingerprint of a command's content: tells a repeated command from another one under the same id."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

from msgspec import Raw

from cqrs_cli.core.messages.json import read_members, write_members

#: The fingerprint of a command's type, data and expected version.
Fingerprint: TypeAlias = Callable[[str, Raw | bytes, str | None], int]


def fingerprint(kind: str, data: Raw | bytes, expected: str | None) -> int:
    """CRC-32 of type, NUL, the data's bytes as received, NUL, the expected version's text (empty for none)."""
    mark = crc32(b"\0", crc32(data, _of_type(kind)))
    return crc32(expected.encode(), mark) if expected else mark


def without_fields(left_out: Mapping[str, frozenset[str]]) -> Fingerprint:
    """The fingerprint of commands without some members of their data, by type.

    A checksum of a personal value would stay in the outcomes for ever, and confirm guesses. So of data that are no
    object, and of a type that is not there, nothing counts; a payload's sum is no object.
    """

    def without(kind: str, data: Raw | bytes, expected: str | None) -> int:
        names = left_out.get(kind)
        if names is None:
            return fingerprint(kind, b"{}", expected)
        if not names:
            return fingerprint(kind, data, expected)
        try:
            there = read_members(data)
        except (ValueError, RecursionError):  # msgspec's errors are
            there = {}
        for name in names:
            there.pop(name, None)
        mark = crc32(b"\0", crc32(write_members(there), _of_type(kind)))
        return crc32(expected.encode(), mark) if expected else mark

    return without


@lru_cache(maxsize=1000)  # commands come in a few types
def _of_type(kind: str) -> int:
    return crc32(kind.encode() + b"\0")
