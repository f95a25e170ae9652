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
    checksum = crc32(b"\0", crc32(data, _type_checksum(wire_type)))
    return crc32(expected.encode(), checksum) if expected else checksum


def fingerprint_without(members_by_type: Mapping[str, frozenset[str]]) -> Fingerprint:
    """Return a fingerprint function that leaves out the members of `members_by_type`, by command type.

    `members_by_type` lists personal members: a checksum of a personal value would stay in the outcomes for ever, and
    could confirm a guess of the value. If a type is not listed, or the data are not an object (as the SHA-256 of a
    payload), the members cannot be left out, so all data are left out.
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
        checksum = crc32(b"\0", crc32(write_members(members), _type_checksum(wire_type)))
        return crc32(expected.encode(), checksum) if expected else checksum

    return fingerprint_without_members


@lru_cache(maxsize=1000)  # there are only a few types
def _type_checksum(wire_type: str) -> int:
    return crc32(wire_type.encode() + b"\0")
