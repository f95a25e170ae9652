"""Hashes the partition history of an aggregate for its certificate, and compares it with an earlier certificate.

The driver hashes it, in the same way as tasks hash the other topics.
"""

from typing import NamedTuple

from msgspec import UNSET

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.keyspace.key_space import requested_key_space
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
    """The partition counts of an aggregate so far, and the hashes of the topic `<agg>.lineage`."""

    counts: tuple[int, ...]  # partition counts, the oldest first
    id: str  # topic id
    log: LogCertificate
    partial: Stretch | None  # the last stretch of the earlier certificate, hashed again

    @property
    def certificate(self) -> TopicCertificate:
        """The partition history as an entry of a certificate."""
        return TopicCertificate(self.id, [self.log])


def certify_lineage(
    connection: Connection, aggregate_topics: AggregateTopics, earlier_certificate: Certificate | None
) -> CertifiedLineage | None:
    """Hash the current partition history; None for an aggregate that was never repartitioned."""
    topics, certified = (
        aggregate_topics.topics,
        None if earlier_certificate is None else _certified_lineage(earlier_certificate),
    )
    if aggregate_topics.lineage_id is None:
        return None
    counts = requested_key_space(connection, topics, "none", aggregate_topics.partitions).counts
    hasher = LogHasher(None if certified is None else certified.partitions[0].end)
    start, end = readers.bounds(connection, topics.lineage, [0])[0]
    for records in readers.read(connection, topics.lineage, 0, start, end):
        hasher.hash_records(records)
    return CertifiedLineage(counts, aggregate_topics.lineage_id, *hasher.finish(start, end))


def lineage_changes(earlier_certificate: Certificate, current: CertifiedLineage | None) -> list[LogChange]:
    """Return the changes of the records that an earlier certificate covers; none if it predates the topic."""
    if (certified := _certified_lineage(earlier_certificate)) is None:
        return []
    if current is None or current.id != certified.id:
        return [LogChange(0, f"is another topic than the certificate's: {certified.id} is gone")]
    return check_log(certified.partitions[0], current.log, current.partial).changes


def repartitioning_change(before: int, current: int, lineage: CertifiedLineage | None) -> LogChange | None:
    """Return a violation if partitions were added since the certificate without a record in the partition history.

    `before`, `current`: the partition counts in the certificate and now.
    """
    if current <= before or (lineage is not None and before in lineage.counts):
        return None
    return LogChange(
        0, f"was added after the certificate of {before} partitions, but no repartitioning is recorded"
    )


def _certified_lineage(earlier_certificate: Certificate) -> TopicCertificate | None:
    return None if earlier_certificate.lineage is UNSET else earlier_certificate.lineage
