"""Parts of a partition's aggregates: ranges of a hash of their ids, which are the keys of their events."""

from collections.abc import Callable, Iterable
from zlib import crc32

_HASHES = 1 << 32

#: All aggregates.
WHOLE = range(_HASHES)

#: The hash of an id in UTF-8.
hash_of: Callable[[bytes], int] = crc32


def part_of(number: int, parts: int) -> range:
    """Return the hash range of part `number` of `parts` equal parts."""
    return range(_HASHES * number // parts, _HASHES * (number + 1) // parts)


def are_in_part(keys: Iterable[bytes | None], part: range) -> list[bool]:
    """Return for each record key whether its aggregate is in the part. Decoding the events would cost far more."""
    low, high = part.start, part.stop
    return [low <= hash_of(key or b"") < high for key in keys]
