"""Uploads and downloads of payloads, with a store that loses, alters and blocks them."""

import os
import threading
import time

import pytest

from cqrs_cli.core.messages.payload_reference import PayloadReference, payload_folder, reference_to
from cqrs_cli.errors import ConfigurationError, PayloadUnavailableError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import PayloadTransfer
from cqrs_cli.payloads.transfer_pool import TransferPool
from tests.payloads.stores import EACH_STORE, FOLDER, FolderStore
from tests.support.waiting import eventually


@EACH_STORE
def test_payloads_are_read_back(store: FolderStore) -> None:
    datas = [b"x" * size for size in (0, 1, 1000, 9_000_000)]
    references = [store.put(data) for data in datas]
    assert store.transfer.fetch(FOLDER, references) == dict(zip(references, datas, strict=True))


@EACH_STORE
def test_successful_calls_do_not_pause(store: FolderStore) -> None:
    """A pause before a retry takes at least 0.1 s."""
    transfer = PayloadTransfer(store.address._replace(retry_for=20))
    reference, durations = store.put(b"data"), []
    for _ in range(5):
        started_at = time.monotonic()
        transfer.fetch(FOLDER, [reference])
        durations.append(time.monotonic() - started_at)
    assert min(durations) < 0.1


@EACH_STORE
def test_same_payload_is_stored_once(store: FolderStore) -> None:
    reference = store.put(b"same")
    inode = store.file(reference).stat().st_ino
    store.put(b"same")
    assert store.file(reference).stat().st_ino == inode
    assert store.files() == [reference.sha256]  # no temporary file is left


@EACH_STORE
def test_stored_again_payload_is_young(store: FolderStore) -> None:
    """`payloads gc` might delete an old payload before its record is written."""
    reference = store.put(b"old")
    store.make_older(reference, 7200)
    store.put(b"old")
    assert (store.transfer.store.age(FOLDER, reference.sha256) or 0) < 3600


@EACH_STORE
def test_damaged_payload_is_written_again(store: FolderStore) -> None:
    reference = store.put(b"whole")
    store.file(reference).write_bytes(b"who")
    store.put(b"whole")
    assert store.transfer.fetch(FOLDER, [reference]) == {reference: b"whole"}


@EACH_STORE
def test_missing_and_altered_payloads_are_reported(store: FolderStore) -> None:
    lost, altered, longer, good = (store.put(data) for data in (b"lost", b"altered", b"longer", b"good"))
    store.delete(lost)
    store.alter(altered)
    store.file(longer).write_bytes(b"longer than it was")
    results = store.transfer.fetch(FOLDER, [lost, altered, longer, good])
    assert results[lost] == "it is missing"
    assert str(results[altered]).startswith("it is altered")
    assert str(results[longer]).startswith(
        "it is altered: its 7 bytes"
    )  # one byte more than its size is read
    assert results[good] == b"good"


@pytest.mark.objects
@pytest.mark.parametrize("kind", ["objects"])
def test_missing_bucket_is_reported(store: FolderStore) -> None:
    """The error names the bucket, not the single payload."""
    lost = store.put(b"lost")
    store.reject_requests()
    assert store.transfer.fetch(FOLDER, [lost]) == {lost: "the bucket does not exist"}


@EACH_STORE
def test_hanging_read_fails_only_its_payload(store: FolderStore) -> None:
    silent, good = reference_to(b"silent"), store.put(b"good")
    store.block_reads(silent)
    results = store.transfer.fetch(FOLDER, [silent, good])
    assert results == {silent: "the store does not answer", good: b"good"}


@EACH_STORE
def test_late_payload_is_waited_for(store: FolderStore) -> None:
    """A network folder may show a new file a moment later."""
    late_reference = reference_to(b"late")
    transfer = PayloadTransfer(store.address._replace(retry_for=20))
    requested = threading.Event()
    original_get = transfer.store.get

    def signalling_get(folder: str, reference: PayloadReference) -> bytes:
        requested.set()
        return original_get(folder, reference)

    transfer.store.get = signalling_get  # type: ignore[method-assign]
    writer = threading.Thread(target=lambda: requested.wait() and store.put(b"late"))
    writer.start()
    assert transfer.fetch(FOLDER, [late_reference]) == {late_reference: b"late"}
    writer.join()


@EACH_STORE
def test_failed_upload_is_an_error(store: FolderStore) -> None:
    store.reject_requests()
    with pytest.raises(PayloadUnavailableError, match=reference_to(b"x").sha256):
        store.put(b"x")


def test_unknown_store_is_a_configuration_error() -> None:
    address = PayloadStoreAddress("carrier-pigeon://loft", retry_for=0)
    with pytest.raises(ConfigurationError, match="carrier-pigeon"):
        PayloadTransfer(address).upload(FOLDER, {reference_to(b"x"): b"x"})
    with pytest.raises(ConfigurationError, match="carrier-pigeon"):
        PayloadTransfer(address).fetch(FOLDER, [reference_to(b"x")])


def test_hanging_calls_start_no_threads() -> None:
    """Hanging calls keep the pool's threads, and start no more. Later calls are dropped after their timeout."""
    never_set, hanging_calls, pool = threading.Event(), list[int](), TransferPool(2)

    def hang() -> bool:
        hanging_calls.append(1)
        return never_set.wait(30)

    eventually(lambda: pool.call(dict.fromkeys(range(4), hang), 0.05) == {} and len(hanging_calls) == 2)
    assert pool.call({"next": lambda: 1}, 0.05) == {}
    assert len([thread for thread in threading.enumerate() if thread.name == "payloads"]) >= 2
    assert pool._thread_count == 2
    never_set.set()


def test_topics_of_an_aggregate_share_a_folder() -> None:
    assert {payload_folder(f"dev.order.{kind}") for kind in ("commands", "events", "dead-letters")} == {
        FOLDER
    }


def test_only_their_owner_reads_payloads(store: FolderStore) -> None:
    """The umask has no effect. The folder above the store belongs to the operator, and keeps its mode."""
    old_umask = os.umask(0)
    try:
        file = store.file(store.put(b"secret"))
    finally:
        os.umask(old_umask)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [folder.stat().st_mode & 0o777 for folder in (file.parent, store.path)] == [0o700, 0o700]
