"""Fingerprints of commands: they distinguish a repeated command from another command with the same id."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

from msgspec import Raw

from cqrs_cli.core.messages.json import read_members, write_members

#: Computes the fingerprint of a command from its type, data and expected version.
Fingerprint: TypeAlias = Callable[[str, Raw | bytes, str | None], int]


def fingerprint(wire_type: str, data: Raw | bytes, expected: str | None) -> int:
    """Return the CRC-32 of type, NUL, the data's bytes as received, NUL, and the expected version (empty for None)."""
    return fingerprint_of_type(wire_type)(data, expected)


@lru_cache(maxsize=1000)  # there are only a few types
def fingerprint_of_type(wire_type: str) -> Callable[[Raw | bytes, str | None], int]:
    """Return `fingerprint` for commands of a type."""
    type_checksum = crc32(wire_type.encode() + b"\0")

    def fingerprint_of(data: Raw | bytes, expected: str | None) -> int:
        checksum = crc32(b"\0", crc32(data, type_checksum))
        return crc32(expected.encode(), checksum) if expected else checksum

    return fingerprint_of


def fingerprint_without(members_by_type: Mapping[str, frozenset[str]]) -> Fingerprint:
    """Return a fingerprint function that leaves out the members of `members_by_type`, by command type.

    `members_by_type` lists personal members: a checksum of a personal value would stay in the outcomes for ever, and
    could confirm a guess of the value. If a type is not listed, all data are left out, because any member may be
    personal. Data that are not an object, such as the SHA-256 of a payload, are left out, too.
    """

    def fingerprint_without_members(wire_type: str, data: Raw | bytes, expected: str | None) -> int:
        names = members_by_type.get(wire_type)
        if names is None:
            return fingerprint(wire_type, b"{}", expected)
        if not names:
            return fingerprint(wire_type, data, expected)
        try:
            members = read_members(data)
        except (ValueError, RecursionError):  # msgspec raises subclasses of `ValueError`
            members = {}
        for name in names:
            members.pop(name, None)
        return fingerprint(wire_type, write_members(members), expected)

    return fingerprint_without_members
