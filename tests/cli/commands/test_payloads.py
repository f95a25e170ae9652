"""`cqrs payloads gc` considers the records of all topics."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from cqrs_cli.core.messages.payload_reference import find_reference, reference_to
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.sweep import MIN_UNUSED_AGE
from tests.cli.conftest import Cqrs
from tests.payloads.bank import LARGE_NAME, Bank
from tests.payloads.stores import EACH_STORE, FolderStore, new_store
from tests.support.harness import TopicHarness
from tests.support.objects.running import Bucket

pytestmark = pytest.mark.kafka


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> FolderStore:
    return new_store(kind, request, tmp_path)


@EACH_STORE
@pytest.mark.covers("payloads")
def test_gc_keeps_payloads_that_records_need(
    cqrs_on_broker: Cqrs, prefix: str, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CQRS_PAYLOAD_STORE", store.address.uri)
    monkeypatch.setenv("CQRS_PAYLOAD_THRESHOLD", "1KiB")
    folder = f"{prefix}bank_account"
    assert cqrs_on_broker("send", "bank_account", "a", "Open", f"owner={'x' * 2000}").status == 0
    (used_hash,) = store.files()
    unused_reference = store.put(b"unused", folder)
    for file in (store.path / folder).iterdir():
        store.make_file_older(file, MIN_UNUSED_AGE + 10)
    assert reference_to(b'{"owner":"%s"}' % (b"x" * 2000)).sha256 == used_hash
    dry_run = cqrs_on_broker("payloads", "gc", "bank_account", "--dry-run", "-o", "json").lines[0]
    assert (dry_run["kept"], dry_run["put_aside"]) == (1, {"payloads": 1, "bytes": 6})
    assert store.file(unused_reference, folder).exists()
    assert "1 put aside (6 bytes)" in cqrs_on_broker("payloads", "gc", "bank_account").out
    assert (store.path / folder / used_hash).exists() and not store.file(unused_reference, folder).exists()
    message = cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines[0]["message"]
    assert message["data"] == {"owner": "x" * 2000} and "datasha256" not in message


def test_gc_needs_a_store(cqrs_on_broker: Cqrs) -> None:
    result = cqrs_on_broker("payloads", "gc")
    assert result.status == 3 and "payload_store" in result.err


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries of requests to the payload store end after 50 ms."""
    monkeypatch.setattr(
        "cqrs_cli.settings.settings.PayloadStoreAddress", partial(PayloadStoreAddress, retry_for=0.05)
    )


@pytest.mark.usefixtures("short_retries")
@pytest.mark.covers("payloads")
def test_readers_of_lost_payloads(
    single_bank: TopicHarness, cqrs: Cqrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the loss of a payload, readers that need the payload fail, and other readers show its hash.

    A failed command is sent again by reference.
    """
    bank = Bank(single_bank, FolderStore(tmp_path / "payloads"))
    monkeypatch.setenv("CQRS_PAYLOAD_STORE", str(bank.store.path))
    flags = (
        "-q",
        "-b",
        bank.harness.connection.bootstrap_server,
        "--topic-prefix",
        bank.harness.topics.prefix,
    )
    bank.send("ada", "Open", f"owner={LARGE_NAME}")
    reference = find_reference(bank.harness.records("commands")[0].value)
    assert reference is not None
    payload = bank.store.file(reference, bank.folder).read_bytes()
    bank.store.delete(reference, bank.folder)
    assert bank.decide() == ["PAYLOAD_UNAVAILABLE"]
    (letter,) = cqrs("dead-letters", "list", "bank_account", "-o", "json", *flags).lines
    assert letter["reason"] == "PAYLOAD_UNAVAILABLE" and reference.sha256 in letter["message"]
    bank.store.put(payload, bank.folder)
    assert cqrs("dead-letters", "retry", "bank_account", "--all", *flags).status == 0
    assert find_reference(bank.harness.records("commands")[-1].value) == reference
    assert bank.decide()[-1] == "accepted"
    bank.store.delete(reference, bank.folder)
    result = cqrs("show", "bank_account", "ada", *flags)
    assert (
        result.status == 4 and f"events:0@0 refers to payload {reference.sha256}: it is missing" in result.err
    )
    trace = cqrs("trace", bank.harness.outcomes()[0].correlationid, "-o", "json", *flags).document
    command = trace["commands"][-1]
    assert [command["data"], command["events"][0]["data"]] == [reference.sha256] * 2


@pytest.mark.objects
@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize("fault", ["no bucket", "wrong secret"])
def test_store_errors_have_a_hint(
    cqrs_on_broker: Cqrs, bucket: Bucket, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line, and its exit code means that a retry may succeed."""
    monkeypatch.setenv("CQRS_PAYLOAD_STORE", bucket.uri("payloads"))
    send_large = ("send", "bank_account", "a", "Open", f"owner={'x' * 300_000}")
    collect_garbage = ("payloads", "gc", "bank_account")
    assert cqrs_on_broker(*send_large).status == cqrs_on_broker(*collect_garbage).status == 0
    if fault == "no bucket":
        shutil.rmtree(bucket.folder)
        hint = "the bucket does not exist; create it, or correct the address"
    else:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        hint = "check the credentials in the environment, and their rights"
    for call in (send_large, collect_garbage):
        result = cqrs_on_broker(*call)
        assert (result.status, result.err.count("\n")) == (4, 1) and hint in result.err, result
