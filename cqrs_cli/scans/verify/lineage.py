"""The lineage of an aggregate in its certificates: hashed as the other topics are, by the driver."""

from typing import NamedTuple

from msgspec import UNSET

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import HIDDEN_PATIENCE, read_lineage
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.proof.certificate import (
    Certificate,
    LogCertificate,
    LogChange,
    LogHasher,
    Stretch,
    TopicCertificate,
    check_log,
)


class CertifiedLineage(NamedTuple):
    """The numbers of partitions that an aggregate had, and the log that says so, with its stretch at the cut."""

    counts: tuple[int, ...]
    id: str
    log: LogCertificate
    partial: Stretch | None

    @property
    def certificate(self) -> TopicCertificate:
        """As a certificate keeps it."""
        return TopicCertificate(self.id, [self.log])


def certify_lineage(
    connection: Connection, described: AggregateTopics, earlier: Certificate | None
) -> CertifiedLineage | None:
    """The lineage as it is now; None for an aggregate that never grew."""
    topics, was = described.topics, None if earlier is None else _kept(earlier)
    if described.lineage_id is None:
        return None
    counts = read_lineage(connection, topics, described.partitions, HIDDEN_PATIENCE).counts
    hasher = LogHasher(None if was is None else was.partitions[0].end)
    start, end = readers.bounds(connection, topics.lineage, [0])[0]
    for records in readers.read(connection, topics.lineage, 0, start, end):
        hasher.feed(records)
    return CertifiedLineage(counts, described.lineage_id, *hasher.finish(start, end))


def lineage_changes(earlier: Certificate, now: CertifiedLineage | None) -> list[LogChange]:
    """The changes of the lineage since a certificate, which may be of before the first growth."""
    if (was := _kept(earlier)) is None:
        return []
    if now is None or now.id != was.id:
        return [LogChange(0, f"is another topic than the certificate's: {was.id} is gone")]
    return check_log(was.partitions[0], now.log, now.partial).changes


def growth_change(before: int, now: int, lineage: CertifiedLineage | None) -> LogChange | None:
    """The change if partitions came since a certificate of `before` partitions, and no growth has made them."""
    if now <= before or (lineage is not None and before in lineage.counts):
        return None
    return LogChange(
        0, f"came after the certificate, of {before} partitions, and no lineage says that they grew"
    )


def _kept(earlier: Certificate) -> TopicCertificate | None:
    return None if earlier.lineage is UNSET else earlier.lineage
