"""The partition history of an aggregate in its certificates. The driver hashes it like the other topics."""

from typing import NamedTuple

from msgspec import UNSET

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import HIDDEN_RECORD_TIMEOUT, read_lineage
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
    """The partition counts of an aggregate so far, and the hashes of the partition history's log."""

    counts: tuple[int, ...]
    id: str
    log: LogCertificate
    partial: Stretch | None

    @property
    def certificate(self) -> TopicCertificate:
        """The partition history as an entry of a certificate."""
        return TopicCertificate(self.id, [self.log])


def certify_lineage(
    connection: Connection, described: AggregateTopics, earlier: Certificate | None
) -> CertifiedLineage | None:
    """Hash the current partition history; None for an aggregate that was never repartitioned."""
    topics, was = described.topics, None if earlier is None else _kept(earlier)
    if described.lineage_id is None:
        return None
    counts = read_lineage(connection, topics, described.partitions, HIDDEN_RECORD_TIMEOUT).counts
    hasher = LogHasher(None if was is None else was.partitions[0].end)
    start, end = readers.bounds(connection, topics.lineage, [0])[0]
    for records in readers.read(connection, topics.lineage, 0, start, end):
        hasher.hash_records(records)
    return CertifiedLineage(counts, described.lineage_id, *hasher.finish(start, end))


def lineage_changes(earlier: Certificate, now: CertifiedLineage | None) -> list[LogChange]:
    """Return the changes of the partition history since a certificate, which may predate the first repartitioning."""
    if (was := _kept(earlier)) is None:
        return []
    if now is None or now.id != was.id:
        return [LogChange(0, f"is another topic than the certificate's: {was.id} is gone")]
    return check_log(was.partitions[0], now.log, now.partial).changes


def growth_change(before: int, now: int, lineage: CertifiedLineage | None) -> LogChange | None:
    """Return a violation if the partitions since a certificate of `before` partitions do not come from a
    repartitioning.
    """
    if now <= before or (lineage is not None and before in lineage.counts):
        return None
    return LogChange(
        0, f"came after the certificate, of {before} partitions, and no lineage says that they grew"
    )


def _kept(earlier: Certificate) -> TopicCertificate | None:
    return None if earlier.lineage is UNSET else earlier.lineage
