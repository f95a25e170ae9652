"""Certificates and repartitioning: changes that the partition history explains are legitimate, others are not."""

import pytest
from msgspec import UNSET

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.certificate import Certificate, LogHasher, read_certificate, write_certificate
from cqrs_cli.scans.verify.lineage import CertifiedLineage, growth_change, lineage_changes


def hashed(*values: bytes, cut: int | None = None, id: str = "L") -> CertifiedLineage:
    hasher = LogHasher(cut)
    hasher.hash_records(Record(at, 0, None, value) for at, value in enumerate(values))
    return CertifiedLineage((4, 8), id, *hasher.finish(0, len(values)))


def certificate(lineage: CertifiedLineage | None) -> Certificate:
    kept = UNSET if lineage is None else lineage.certificate
    return Certificate(aggregate="bank", cluster="c", made="", topics={}, lineage=kept)


THEN = certificate(hashed(b"grow", b"split"))


def test_certificate_of_before_has_none() -> None:
    written = write_certificate(certificate(None))
    assert b"lineage" not in written
    assert lineage_changes(read_certificate(written), hashed(b"grow")) == []


def test_lineage_goes_on() -> None:
    kept = read_certificate(write_certificate(THEN))
    assert kept == THEN
    assert lineage_changes(kept, hashed(b"grow", b"split", b"begun", cut=2)) == []


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (hashed(b"grow", b"SPLIT", b"begun", cut=2), "offsets 0 to 1 were altered"),
        (hashed(b"grow", cut=2), "ends at 1, the certificate at 2"),
        (hashed(b"grow", b"split", cut=2, id="M"), "is another topic than the certificate's: L is gone"),
        (None, "is another topic than the certificate's: L is gone"),
    ],
)
def test_altered_lineage_is_found(now: CertifiedLineage | None, says: str) -> None:
    assert says in lineage_changes(THEN, now)[0].description


def test_children_come_after() -> None:
    """Only the targets of a repartitioning may be new partitions."""
    grown = hashed(b"grow")
    assert growth_change(4, 8, grown) is growth_change(8, 8, grown) is growth_change(4, 4, None) is None
    assert growth_change(4, 8, None) == growth_change(4, 8, grown._replace(counts=(2, 8)))
