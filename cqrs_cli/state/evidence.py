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
    """The offset and the hash of the last folded record.

    In another log, this offset has another record or no record.
    """

    offset: int
    digest: str  # SHA-256, hexadecimal

    def matches(self, record: Record | None) -> bool:
        """Return True if `record`, the present record at the offset, is the record of this evidence."""
        return record is not None and self == evidence(record)


def evidence(record: Record) -> Evidence:
    """Return the evidence of a record: its offset and a hash of its content, without the broker's timestamp."""
    content = encode_json([record.offset, record.key, record.value])
    return Evidence(record.offset, sha256(content).hexdigest())


def evidence_at(log_records: Sequence[Record], offset: int) -> Evidence:
    """Return the evidence of the record at `offset`; `log_records`: records as the log has them, by offset."""
    return evidence(log_records[bisect_left(log_records, offset, key=_offset)])
