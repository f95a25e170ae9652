"""The doctor's checks of the payload store."""

from pathlib import Path

import pytest

from cqrs_cli.doctor.check import run_check
from cqrs_cli.doctor.payloads import check_payloads
from cqrs_cli.payloads.address import PayloadStoreAddress
from tests.support.objects.running import Bucket


def found(place: PayloadStoreAddress | None) -> list[tuple[str, str, int]]:
    checks = run_check("payloads", lambda: check_payloads(place))
    return [(check.status, check.detail, check.exit_code) for check in checks]


def test_store_is_looked_at(tmp_path: Path) -> None:
    place = PayloadStoreAddress(str(tmp_path / "store"), retry_for=0)
    assert found(place) == [("warn", f"{place.uri} does not exist yet", 0)]
    (tmp_path / "store").mkdir()
    assert found(place) == [("ok", f"{place.uri} responds", 0)]
    assert found(None) == []


def test_unknown_store_fails() -> None:
    ((status, detail, code),) = found(PayloadStoreAddress("carrier-pigeon://loft", retry_for=0))
    assert (status, code) == ("fail", 3) and "carrier-pigeon" in detail


@pytest.mark.program
@pytest.mark.objects
def test_bucket_must_be_there(bucket: Bucket) -> None:
    """A folder in the bucket need not exist."""
    place = PayloadStoreAddress(bucket.uri("store"), retry_for=0)
    assert found(place) == [("ok", f"{place.uri} responds", 0)]
    bucket.folder.rmdir()
    told = f"{place.uri} cannot be used: the bucket does not exist"
    assert found(place) == [("fail", told, 4)]
