"""Deleting unreferenced payloads: a payload that a record may reference is never deleted."""

import pytest

from cqrs_cli.client.queries.payloads import digests_in
from cqrs_cli.core.messages.payload_reference import PayloadReference, reference_to, with_reference
from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Record
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.store import UNUSED_SUBFOLDER
from cqrs_cli.payloads.sweep import MIN_UNUSED_AGE, Sweep, SweepResult
from tests.core.tally import command, record
from tests.payloads.stores import EACH_STORE, FOLDER, FolderStore


def old_payload(store: FolderStore, data: bytes) -> PayloadReference:
    reference = store.put(data)
    store.make_older(reference, MIN_UNUSED_AGE + 10)
    return reference


def sweep(store: FolderStore, *references: PayloadReference, dry_run: bool = False) -> SweepResult:
    return Sweep(store.address, FOLDER).sweep({reference.sha256 for reference in references}, dry_run)


def counts(result: SweepResult) -> tuple[int, int, int, int]:
    return result.kept, len(result.put_aside), len(result.brought_back), len(result.deleted)


def is_put_aside(store: FolderStore, reference: PayloadReference) -> bool:
    return (store.path / FOLDER / UNUSED_SUBFOLDER / reference.sha256).exists()


@pytest.mark.program
@pytest.mark.covers("payloads")
@EACH_STORE
def test_unused_payload_is_deleted_in_two_steps(store: FolderStore) -> None:
    """A payload that was put aside is still readable. Only a sweep a day later deletes it."""
    used, unused, young = old_payload(store, b"used"), old_payload(store, b"unused"), store.put(b"young")
    assert counts(sweep(store, used)) == (2, 1, 0, 0)
    assert is_put_aside(store, unused) and not store.file(unused).exists()
    references = [used, unused, young]
    assert store.transfer.fetch(FOLDER, references) == {used: b"used", unused: b"unused", young: b"young"}
    assert counts(sweep(store, used)) == (2, 0, 0, 0)
    store.make_file_older(store.path / FOLDER / UNUSED_SUBFOLDER / unused.sha256, MIN_UNUSED_AGE + 10)
    assert counts(sweep(store, used)) == (2, 0, 0, 1)
    assert store.files() == sorted([used.sha256, young.sha256])


@pytest.mark.covers("payloads")
@EACH_STORE
def test_payload_with_late_record_is_restored(store: FolderStore) -> None:
    late = old_payload(store, b"late")
    sweep(store)
    store.make_file_older(store.path / FOLDER / UNUSED_SUBFOLDER / late.sha256, MIN_UNUSED_AGE + 10)
    assert counts(sweep(store, late)) == (1, 0, 1, 0)
    assert store.file(late).exists() and not is_put_aside(store, late)


@pytest.mark.covers("payloads")
@EACH_STORE
def test_payload_stored_again_is_kept(store: FolderStore) -> None:
    """A payload that is stored again during a sweep stays, although no record references it yet."""
    reference = old_payload(store, b"again")
    running_sweep = Sweep(store.address, FOLDER)
    store.put(b"again")
    assert counts(running_sweep.sweep(set(), dry_run=False)) == (1, 0, 0, 0)
    assert store.file(reference).exists()


@EACH_STORE
def test_dry_run_changes_nothing(store: FolderStore) -> None:
    unused = old_payload(store, b"unused")
    assert counts(sweep(store, dry_run=True)) == (0, 1, 0, 0)
    assert store.file(unused).exists()


def test_unlistable_store_is_an_error(store: FolderStore) -> None:
    """A folder that cannot be listed does not count as empty."""
    store.path.mkdir()
    (store.path / FOLDER).write_text("a file where the folder should be")
    with pytest.raises(PayloadUnavailableError, match="cannot be used"):
        Sweep(store.address, FOLDER)


@pytest.mark.objects
@pytest.mark.parametrize("kind", ["objects"])
def test_missing_bucket_is_an_error(store: FolderStore) -> None:
    """A missing bucket does not count as empty either."""
    store.reject_requests()
    with pytest.raises(PayloadUnavailableError, match="the bucket does not exist"):
        Sweep(store.address, FOLDER)


@EACH_STORE
def test_foreign_files_are_kept(store: FolderStore) -> None:
    """A file that a sender left half-written is deleted."""
    reference = store.put(b"x")
    foreign, draft = store.path / FOLDER / "README", store.path / FOLDER / f".{reference.sha256}.{'0' * 32}"
    for file in (foreign, draft):
        file.write_text("x")
        store.make_file_older(file, MIN_UNUSED_AGE + 10)
    assert counts(sweep(store, reference)) == (1, 0, 0, 1)
    assert foreign.exists() and not draft.exists()


def test_every_spelling_of_a_hash_counts() -> None:
    """The hash may be in headers of binary mode, in documents within documents, and in escapes."""
    sha256 = reference_to(b"x").sha256
    document = with_reference(command(), FOLDER, reference_to(b"x"))
    escaped = b'{"datasha256":"%s\\u00%02x%s"}' % (sha256[:1].encode(), ord(sha256[1]), sha256[2:].encode())
    assert sha256.encode() not in escaped
    for record_with_hash in (
        record(0, document),
        record(0, b'{"command":%s}' % document),
        record(0, escaped),
        record(0, b'{"command":%s}' % escaped),
        Record(0, 1, b"a", b"", [("ce_datasha256", sha256.encode())]),
    ):
        assert sha256 in digests_in(record_with_hash)
    assert digests_in(Record(0, 1, b"a", None, UNREADABLE_HEADERS)) == set()
