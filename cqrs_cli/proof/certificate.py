"""Certificates: hashes of what the logs of an aggregate hold, and what has become of them since. Pure."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.messages.record import Record

#: Offsets of one hash: the answer to "where" is as exact as that.
STRETCH = 10_000

_NUMBERS = struct.Struct(">qq").pack
_LENGTH = struct.Struct(">i").pack
_NOTHING = _LENGTH(-1)


class Stretch(Struct, frozen=True):
    """The committed records from offset `start` on, below `start + STRETCH`: how many, and their SHA-256 in hex."""

    start: int
    records: int
    sha256: str


class LogCertificate(Struct, frozen=True):
    """One partition of a topic: where it began and ended, and its stretches that have records."""

    start: int
    end: int
    stretches: list[Stretch]

    @property
    def records(self) -> int:
        """The records of all stretches."""
        return sum(stretch.records for stretch in self.stretches)


class TopicCertificate(Struct, frozen=True):
    """One topic, by the id that it has for life."""

    id: str
    partitions: list[LogCertificate]


class Certificate(Struct, frozen=True, kw_only=True):
    """All topics of an aggregate, by name. `lineage`: the log that says how its partitions grew, if they did."""

    format: Literal["cqrs.certificate/1"] = "cqrs.certificate/1"
    aggregate: str
    cluster: str
    made: str
    topics: dict[str, TopicCertificate]
    lineage: TopicCertificate | UnsetType = UNSET


class LogChange(NamedTuple):
    """A change of a log below its certificate; reads on from `topic partition`."""

    offset: int
    what: str


class Checked(NamedTuple):
    """A log compared with its certificate: the records of it that are as they were, or deleted by retention."""

    changes: list[LogChange]
    checked: int
    deleted: int


def read_certificate(text: bytes) -> Certificate:
    """The certificate in a file; raises `ValueError` (msgspec's errors are) for any other text."""
    return msgspec.json.decode(text, type=Certificate)


def write_certificate(certificate: Certificate) -> bytes:
    """The certificate as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=1) + b"\n"


class LogHasher:
    """Hashes the records of a log in their order. `cut`: an offset at which its stretch is hashed so far, too."""

    def __init__(self, cut: int | None = None, stretch: int = STRETCH) -> None:
        self._length = stretch
        self.stretches: list[Stretch] = []
        self._cut = cut
        self._partial: Stretch | None = None
        self._number, self._count, self._hash = -1, 0, hashlib.sha256()

    def feed(self, records: Iterable[Record]) -> None:
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
        """The certificate of all that was fed, and the stretch of the cut up to there, if it has records."""
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
    """Offset, timestamp, key, headers and value, each with its length: no two records have the same bytes."""
    headers = record.headers or []
    parts = [_NUMBERS(record.offset, record.timestamp), _field(record.key), _LENGTH(len(headers))]
    for name, content in headers:
        parts += (_field(name.encode()), _field(content))
    parts.append(_field(record.value))
    return b"".join(parts)


def _field(value: bytes | None) -> bytes:
    return _NOTHING if value is None else _LENGTH(len(value)) + value


def check_log(
    was: LogCertificate, now: LogCertificate, partial: Stretch | None, length: int = STRETCH
) -> Checked:
    """The changes of a log since then. `partial`: the stretch in which the certificate ends, hashed up to there.

    A stretch of which retention has deleted a part cannot be checked: it counts as deleted.
    """
    changes = []
    if now.end < was.end:
        changes.append(
            LogChange(now.end, f"ends at {now.end}, the certificate at {was.end}: records were cut off")
        )
    found = {one.start: one for one in now.stretches}
    last = was.end // length * length
    found.pop(last, None)
    if partial is not None:
        found[last] = partial
    checked = deleted = 0
    for stretch in was.stretches:
        low, high = max(stretch.start, was.start), min(stretch.start + length, was.end)
        there = found.pop(stretch.start, None)
        if now.start > low:
            deleted += stretch.records
        elif there == stretch:
            checked += stretch.records
        elif high <= now.end:
            changes.append(LogChange(low, f"offsets {low} to {high - 1} were altered"))
    for start in sorted(found):
        if start < was.end:
            high = min(start + length, was.end)
            what = f"offsets {start} to {high - 1} were altered: the certificate knows no records there"
            changes.append(LogChange(start, what))
    return Checked(sorted(changes), checked, deleted)
