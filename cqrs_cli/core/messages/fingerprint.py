"""A fingerprint of a command's content: tells a repeated command from another one under the same id."""

from functools import lru_cache
from zlib import crc32

from msgspec import Raw


def fingerprint(kind: str, data: Raw | bytes, expected: str | None) -> int:
    """CRC-32 of type, NUL, the data's bytes as received, NUL, the expected version's text (empty for none)."""
    mark = crc32(b"\0", crc32(data, _of_type(kind)))
    return crc32(expected.encode(), mark) if expected else mark


@lru_cache(maxsize=1000)  # commands come in a few types
def _of_type(kind: str) -> int:
    return crc32(kind.encode() + b"\0")
