"""Certificates: hashes of an aggregate's topics, and their comparison with the topics at a later time. Pure."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.messages.record import Record

#: Offsets per hash. A change is located with this precision.
STRETCH = 10_000

_NUMBERS = struct.Struct(">qq").pack
_LENGTH = struct.Struct(">i").pack
_NULL = _LENGTH(-1)


class Stretch(Struct, frozen=True):
    """The number and the SHA-256 (hex) of the committed records with `start` ≤ offset < `start + STRETCH`."""

    start: int
    records: int
    sha256: str


class LogCertificate(Struct, frozen=True):
    """One partition of a topic: its start and end offset, and its stretches that contain records."""

    start: int
    end: int
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
    """All topics of an aggregate, by name. `lineage`: the partition history, if the topics were ever repartitioned."""

    format: Literal["cqrs.certificate/1"] = "cqrs.certificate/1"
    aggregate: str
    cluster: str
    made: str
    topics: dict[str, TopicCertificate]
    lineage: TopicCertificate | UnsetType = UNSET


class LogChange(NamedTuple):
    """A change in the certified part of a log. `description` is the predicate of the message `topic partition
    description`.
    """

    offset: int
    description: str


class CertificateComparison(NamedTuple):
    """The comparison of a log with its certificate: changes, and the numbers of unchanged and of deleted records."""

    changes: list[LogChange]
    checked: int
    deleted: int


def read_certificate(text: bytes) -> Certificate:
    """Parse a certificate file; raise `ValueError` (such as msgspec's errors) for any other text."""
    return msgspec.json.decode(text, type=Certificate)


def write_certificate(certificate: Certificate) -> bytes:
    """Return the certificate as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=1) + b"\n"


class LogHasher:
    """Hashes the records of a log in order. `cut`: an offset; the stretch of this offset is also hashed up to it."""

    def __init__(self, cut: int | None = None, stretch: int = STRETCH) -> None:
        self._length = stretch
        self.stretches: list[Stretch] = []
        self._cut = cut
        self._partial: Stretch | None = None
        self._number, self._count, self._hash = -1, 0, hashlib.sha256()

    def hash_records(self, records: Iterable[Record]) -> None:
        """Hash the next records."""
        for record in records:
            offset = record.offset
            if self._cut is not None and offset >= self._cut:
                self._take_partial()
            if offset // self._length != self._number:
                self._close()
                self._number = offset // self._length
            self._count += 1
            self._hash.update(record_bytes(record))

    def finish(self, start: int, end: int) -> tuple[LogCertificate, Stretch | None]:
        """Return the certificate of the records, and the partial stretch up to the cut, if it has records."""
        self._take_partial()
        self._close()
        return LogCertificate(start, end, self.stretches), self._partial

    def _take_partial(self) -> None:
        cut, self._cut = self._cut, None
        if cut is not None and self._count and cut // self._length == self._number:
            self._partial = self._stretch()

    def _close(self) -> None:
        if self._count:
            self.stretches.append(self._stretch())
        self._count, self._hash = 0, hashlib.sha256()

    def _stretch(self) -> Stretch:
        return Stretch(self._number * self._length, self._count, self._hash.hexdigest())


def record_bytes(record: Record) -> bytes:
    """Return offset, timestamp, key, headers and value, each with its length, so that distinct records have distinct
    bytes.
    """
    headers = record.headers or []
    parts = [_NUMBERS(record.offset, record.timestamp), _field(record.key), _LENGTH(len(headers))]
    for name, content in headers:
        parts += (_field(name.encode()), _field(content))
    parts.append(_field(record.value))
    return b"".join(parts)


def _field(value: bytes | None) -> bytes:
    return _NULL if value is None else _LENGTH(len(value)) + value


def check_log(
    certified: LogCertificate, current: LogCertificate, partial: Stretch | None, length: int = STRETCH
) -> CertificateComparison:
    """Compare a log with its certificate. `partial`: the last certified stretch, hashed up to the certificate's end.

    If retention has deleted a part of a stretch, the stretch cannot be checked, and counts as deleted.
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
    last_start = certified.end // length * length
    current_stretches.pop(last_start, None)
    if partial is not None:
        current_stretches[last_start] = partial
    checked = deleted = 0
    for stretch in certified.stretches:
        first_offset, end_offset = (
            max(stretch.start, certified.start),
            min(stretch.start + length, certified.end),
        )
        current_stretch = current_stretches.pop(stretch.start, None)
        if current.start > first_offset:
            deleted += stretch.records
        elif current_stretch == stretch:
            checked += stretch.records
        elif end_offset <= current.end:
            changes.append(
                LogChange(first_offset, f"offsets {first_offset} to {end_offset - 1} were altered")
            )
    for start in sorted(current_stretches):
        if start < certified.end:
            end_offset = min(start + length, certified.end)
            description = (
                f"offsets {start} to {end_offset - 1} were altered: the certificate knows no records there"
            )
            changes.append(LogChange(start, description))
    return CertificateComparison(sorted(changes), checked, deleted)
