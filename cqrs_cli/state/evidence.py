"""Evidence that a log is still the log that was folded: the offset and a hash of its last folded record.

Cluster, topic id and length do not identify a log. A cluster that was restored from a backup has the ids of the lost
cluster, and other records at the same offsets.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import sha256
from operator import attrgetter

import msgspec

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record

_offset: Callable[[Record], int] = attrgetter("offset")


class Evidence(msgspec.Struct, frozen=True):
    """The last record of a log before a position. In another log, this offset has another record, or none."""

    offset: int
    digest: str  # SHA-256, hexadecimal

    def holds(self, there: Record | None) -> bool:
        """Return True if `there`, the record that is now at the offset, is the record of this evidence."""
        return there is not None and self == evidence(there)


def evidence(record: Record) -> Evidence:
    """Return the evidence of a record: its offset and a hash of its content, without the broker's timestamp."""
    content = encode_json([record.offset, record.key, record.value])
    return Evidence(record.offset, sha256(content).hexdigest())


def evidence_at(stored: Sequence[Record], offset: int) -> Evidence:
    """Return the evidence of the record at `offset` among records as they are stored, in the order of their offsets."""
    return evidence(stored[bisect_left(stored, offset, key=_offset)])
