"""Parts of a partition's aggregates, so that several tasks share a partition. A part is a range of id hashes."""

from collections.abc import Callable, Iterable
from zlib import crc32

_HASHES = 1 << 32

#: The part with all aggregates.
WHOLE = range(_HASHES)

#: Returns the hash of an aggregate id in UTF-8. Event records have the aggregate id as key.
hash_of: Callable[[bytes], int] = crc32


def part_of(number: int, parts: int) -> range:
    """Return the hash range of part `number` of `parts` equal parts."""
    return range(_HASHES * number // parts, _HASHES * (number + 1) // parts)


def are_in_part(keys: Iterable[bytes | None], part: range) -> list[bool]:
    """Return for each record key whether its aggregate is in the part. This is far cheaper than decoding the events."""
    low, high = part.start, part.stop
    return [low <= hash_of(key or b"") < high for key in keys]
