"""A fingerprint of a command's content: tells a repeated command from another one under the same id."""

from zlib import crc32

from msgspec import Raw


def fingerprint(kind: str, data: Raw | bytes, expected: str | None) -> int:
    """CRC-32 of type, NUL, the data's bytes as received, NUL, the expected version's text (empty for none)."""
    return crc32(b"%b\0%b\0%b" % (kind.encode(), data, expected.encode() if expected else b""))
