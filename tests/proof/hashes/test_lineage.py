"""Certificates and repartitioning: changes that the partition history explains are legitimate, others are not."""

import pytest
from msgspec import UNSET

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.certificate import Certificate, LogHasher, read_certificate, write_certificate
from cqrs_cli.scans.verify.lineage import CertifiedLineage, lineage_changes, repartitioning_change


def certify_lineage(*values: bytes, certified_end: int | None = None, id: str = "L") -> CertifiedLineage:
    hasher = LogHasher(certified_end)
    hasher.hash_records(Record(offset, 0, None, value) for offset, value in enumerate(values))
    return CertifiedLineage((4, 8), id, *hasher.finish(0, len(values)))


def certificate(lineage: CertifiedLineage | None) -> Certificate:
    lineage_certificate = UNSET if lineage is None else lineage.certificate
    return Certificate(aggregate="bank", cluster="c", made="", topics={}, lineage=lineage_certificate)


CERTIFICATE = certificate(certify_lineage(b"grow", b"split"))


def test_old_certificate_has_no_lineage() -> None:
    text = write_certificate(certificate(None))
    assert b"lineage" not in text
    assert lineage_changes(read_certificate(text), certify_lineage(b"grow")) == []


def test_extended_lineage_is_no_change() -> None:
    read_back = read_certificate(write_certificate(CERTIFICATE))
    assert read_back == CERTIFICATE
    assert lineage_changes(read_back, certify_lineage(b"grow", b"split", b"begun", certified_end=2)) == []


@pytest.mark.parametrize(
    ("lineage", "message"),
    [
        (certify_lineage(b"grow", b"SPLIT", b"begun", certified_end=2), "offsets 0 to 1 were altered"),
        (certify_lineage(b"grow", certified_end=2), "ends at 1, the certificate at 2"),
        (
            certify_lineage(b"grow", b"split", certified_end=2, id="M"),
            "is another topic than the certificate's: L is gone",
        ),
        (None, "is another topic than the certificate's: L is gone"),
    ],
)
def test_altered_lineage_is_found(lineage: CertifiedLineage | None, message: str) -> None:
    assert message in lineage_changes(CERTIFICATE, lineage)[0].description


def test_recorded_repartitioning_is_no_change() -> None:
    """New partitions are a change unless the partition history has the step from the old to the new count."""
    lineage = certify_lineage(b"grow")
    assert (
        repartitioning_change(4, 8, lineage)
        is repartitioning_change(8, 8, lineage)
        is repartitioning_change(4, 4, None)
        is None
    )
    assert repartitioning_change(4, 8, None) == repartitioning_change(4, 8, lineage._replace(counts=(2, 8)))
