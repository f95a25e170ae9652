"""The doctor's checks of the payload store."""

from pathlib import Path

import pytest

from cqrs_cli.doctor.check import run_check
from cqrs_cli.doctor.payloads import check_payloads
from cqrs_cli.payloads.address import PayloadStoreAddress
from tests.support.objects.running import Bucket


def run_checks(address: PayloadStoreAddress | None) -> list[tuple[str, str, int]]:
    checks = run_check("payloads", lambda: check_payloads(address))
    return [(check.status, check.detail, check.exit_code) for check in checks]


def test_store_must_exist(tmp_path: Path) -> None:
    address = PayloadStoreAddress(str(tmp_path / "store"), retry_for=0)
    assert run_checks(address) == [("warn", f"{address.uri} does not exist yet", 0)]
    (tmp_path / "store").mkdir()
    assert run_checks(address) == [("ok", f"{address.uri} responds", 0)]
    assert run_checks(None) == []


def test_unknown_store_fails() -> None:
    ((status, detail, code),) = run_checks(PayloadStoreAddress("unknown-scheme://store", retry_for=0))
    assert (status, code) == ("fail", 3) and "unknown-scheme" in detail


@pytest.mark.program
@pytest.mark.objects
def test_bucket_must_exist(bucket: Bucket) -> None:
    """A folder in the bucket need not exist."""
    address = PayloadStoreAddress(bucket.uri("store"), retry_for=0)
    assert run_checks(address) == [("ok", f"{address.uri} responds", 0)]
    bucket.folder.rmdir()
    detail = f"{address.uri} cannot be used: the bucket does not exist"
    assert run_checks(address) == [("fail", detail, 4)]
