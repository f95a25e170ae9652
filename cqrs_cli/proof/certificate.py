"""Hashes the topics of an aggregate for a certificate, and compares a log with its certificate later. Pure."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.messages.record import Record

#: Number of offsets per hash. A change is located with this precision.
STRETCH = 10_000

_pack_offset_and_timestamp = struct.Struct(">qq").pack
_pack_length = struct.Struct(">i").pack
_NO_VALUE = _pack_length(-1)  # a length of -1 distinguishes None from empty bytes


class Stretch(Struct, frozen=True):
    """The number and the SHA-256 (hex) of the committed records with `start` ≤ offset < `start + STRETCH`."""

    start: int
    records: int
    sha256: str


class LogCertificate(Struct, frozen=True):
    """One partition of a topic: the start and end of its log, and its stretches that contain records."""

    start: int  # first offset of the log
    end: int  # offset after the last record
    stretches: list[Stretch]

    @property
    def records(self) -> int:
        """The number of records of all stretches."""
        return sum(stretch.records for stretch in self.stretches)


class TopicCertificate(Struct, frozen=True):
    """One topic and its id. A recreated topic has another id."""

    id: str
    partitions: list[LogCertificate]


class Certificate(Struct, frozen=True, kw_only=True):
    """All topics of an aggregate."""

    format: Literal["cqrs.certificate/1"] = "cqrs.certificate/1"
    aggregate: str
    cluster: str  # id of the Kafka cluster
    made: str  # the time, as in `2026-11-24T09:14:12.926Z`
    topics: dict[str, TopicCertificate]  # topic name → hashes
    #: The topic of the partition history; UNSET if the aggregate was never repartitioned.
    lineage: TopicCertificate | UnsetType = UNSET


class LogChange(NamedTuple):
    """A change in the certified part of a log. `description` follows topic and partition in the message:
    `orders.events 3 ends at 40, the certificate at 50: records were cut off`.
    """

    offset: int
    description: str


class CertificateComparison(NamedTuple):
    """The comparison of a log with its certificate: changes, and the numbers of unchanged and deleted records."""

    changes: list[LogChange]
    unchanged_count: int
    deleted_count: int


def read_certificate(text: bytes) -> Certificate:
    """Parse a certificate file; raise `ValueError` (such as msgspec's errors) for any other text."""
    return msgspec.json.decode(text, type=Certificate)


def write_certificate(certificate: Certificate) -> bytes:
    """Return the certificate as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=1) + b"\n"


class LogHasher:
    """Hashes the records of a log in order.

    `cut`: the end offset of the log in an earlier certificate. The last stretch of that certificate may be incomplete,
    so a second hash covers only the records of this stretch before the cut.
    """

    def __init__(self, cut: int | None = None, stretch: int = STRETCH) -> None:
        """`stretch`: the number of offsets per hash."""
        self._stretch_length = stretch
        self.stretches: list[Stretch] = []
        self._cut = cut
        self._partial: Stretch | None = None
        self._stretch_number, self._count, self._hash = -1, 0, hashlib.sha256()

    def hash_records(self, records: Iterable[Record]) -> None:
        """Hash the next records."""
        for record in records:
            offset = record.offset
            if self._cut is not None and offset >= self._cut:
                self._save_partial()
            if offset // self._stretch_length != self._stretch_number:
                self._close_stretch()
                self._stretch_number = offset // self._stretch_length
            self._count += 1
            self._hash.update(record_bytes(record))

    def finish(self, start: int, end: int) -> tuple[LogCertificate, Stretch | None]:
        """Return the certificate of the records, and the stretch that ends at the cut; None if it has no records.

        `start`, `end`: the bounds of the log.
        """
        self._save_partial()
        self._close_stretch()
        return LogCertificate(start, end, self.stretches), self._partial

    def _save_partial(self) -> None:
        cut, self._cut = self._cut, None
        if cut is not None and self._count and cut // self._stretch_length == self._stretch_number:
            self._partial = self._current_stretch()

    def _close_stretch(self) -> None:
        if self._count:
            self.stretches.append(self._current_stretch())
        self._count, self._hash = 0, hashlib.sha256()

    def _current_stretch(self) -> Stretch:
        return Stretch(self._stretch_number * self._stretch_length, self._count, self._hash.hexdigest())


def record_bytes(record: Record) -> bytes:
    """Return offset, timestamp, key, headers and value. Variable parts have a length, so different records have
    different bytes.
    """
    headers = record.headers or []
    parts = [
        _pack_offset_and_timestamp(record.offset, record.timestamp),
        _with_length(record.key),
        _pack_length(len(headers)),
    ]
    for name, content in headers:
        parts += (_with_length(name.encode()), _with_length(content))
    parts.append(_with_length(record.value))
    return b"".join(parts)


def _with_length(value: bytes | None) -> bytes:
    return _NO_VALUE if value is None else _pack_length(len(value)) + value


def check_log(
    certified: LogCertificate, current: LogCertificate, partial: Stretch | None, stretch_length: int = STRETCH
) -> CertificateComparison:
    """Compare a log with its earlier certificate. `partial`: the last stretch of the certificate, hashed again up to
    the certificate's end.

    If retention has deleted a part of a stretch, the stretch cannot be checked, and all its records count as deleted.
    """
    changes = []
    if current.end < certified.end:
        changes.append(
            LogChange(
                current.end,
                f"ends at {current.end}, the certificate at {certified.end}: records were cut off",
            )
        )
    current_stretches = {stretch.start: stretch for stretch in current.stretches}
    last_start = certified.end // stretch_length * stretch_length
    current_stretches.pop(last_start, None)
    if partial is not None:
        current_stretches[last_start] = partial
    unchanged_count = deleted_count = 0
    for stretch in certified.stretches:
        first_offset, end_offset = (
            max(stretch.start, certified.start),
            min(stretch.start + stretch_length, certified.end),
        )
        current_stretch = current_stretches.pop(stretch.start, None)
        if current.start > first_offset:
            deleted_count += stretch.records
        elif current_stretch == stretch:
            unchanged_count += stretch.records
        elif end_offset <= current.end:
            changes.append(
                LogChange(first_offset, f"offsets {first_offset} to {end_offset - 1} were altered")
            )
    for start in sorted(current_stretches):
        if start < certified.end:
            end_offset = min(start + stretch_length, certified.end)
            description = (
                f"offsets {start} to {end_offset - 1} were altered: the certificate knows no records there"
            )
            changes.append(LogChange(start, description))
    return CertificateComparison(sorted(changes), unchanged_count, deleted_count)
