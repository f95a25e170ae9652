"""A certificate finds every changed byte before its end, and no change in an untouched log."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof import certificate
from cqrs_cli.proof.certificate import (
    Certificate,
    CertificateComparison,
    LogCertificate,
    LogHasher,
    TopicCertificate,
    check_log,
    read_certificate,
    write_certificate,
)
from tests.proof.history import with_offset
from tests.proof.violations import with_members

TEXTS = st.none() | st.binary(max_size=3)
RECORDS = st.builds(
    Record,
    st.just(0),
    st.integers(0, 3),
    TEXTS,
    TEXTS,
    st.none() | st.lists(st.tuples(st.sampled_from("ab"), TEXTS), max_size=2),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Draw records with holes between their offsets."""
    offset, records = draw(st.integers(0, 12)), []
    for record in draw(st.lists(RECORDS, min_size=1, max_size=12)):
        offset += draw(st.integers(1, 6))
        records.append(with_offset(record, offset))
    return records


#: Number of offsets per hash.
STRETCH = 5


def certify_log(records: Sequence[Record], end: int) -> LogCertificate:
    hasher = LogHasher(stretch=STRETCH)
    hasher.hash_records(record for record in records if record.offset < end)
    return hasher.finish(0, end)[0]


def compare_logs(
    original: Sequence[Record],
    current: Sequence[Record],
    end: int,
    current_end: int | None = None,
    start: int = 0,
) -> CertificateComparison:
    """Check the log `current` against the certificate of `original` up to `end`."""
    hasher = LogHasher(end, STRETCH)
    read_end = max(end, current[-1].offset + 1 if current else 0) if current_end is None else current_end
    hasher.hash_records(record for record in current if start <= record.offset < read_end)
    return check_log(certify_log(original, end), *hasher.finish(start, read_end), STRETCH)


@pytest.mark.covers("certified")
@given(logs(), logs(), st.integers(0, 60), st.integers(0, 60))
def test_untouched_log_has_no_change(
    log: list[Record], later_log: list[Record], end: int, start: int
) -> None:
    """An untouched log has no change, at any end of the certificate, after later records, and after retention."""
    appended_records = [
        with_offset(record, record.offset + max(end, log[-1].offset + 1)) for record in later_log
    ]
    count_below = sum(record.offset < end for record in log)
    assert compare_logs(log, [*log, *appended_records], end) == CertificateComparison([], count_below, 0)
    comparison = compare_logs(
        log, [*log, *appended_records], end, start=min(start, appended_records[-1].offset)
    )
    assert (comparison.changes, comparison.unchanged_count + comparison.deleted_count) == ([], count_below)


@pytest.mark.covers("certified")
@given(logs(), st.data())
def test_every_changed_record_is_found(log: list[Record], data: st.DataObject) -> None:
    end = log[-1].offset + data.draw(st.integers(1, 3))
    number = data.draw(st.integers(0, len(log) - 1))
    record = log[number]
    new_record = data.draw(RECORDS)
    replacement = with_offset(new_record, record.offset)
    changed_log = [*log[:number], *([] if data.draw(st.booleans()) else [replacement]), *log[number + 1 :]]
    changes = compare_logs(log, changed_log, end, end).changes
    if changed_log == log or (_are_equal(replacement, record) and len(changed_log) == len(log)):
        assert changes == []
    else:
        low = record.offset // 5 * 5
        assert [(change.offset, change.description) for change in changes] == [
            (low, f"offsets {low} to {min(low + 4, end - 1)} were altered")
        ]


def _are_equal(first: Record, second: Record) -> bool:
    """True for equal records. A record without headers equals a record with an empty list of headers."""
    return with_members(first, headers=first.headers or []) == with_members(
        second, headers=second.headers or []
    )


@pytest.mark.covers("certified")
@given(logs(), st.data())
def test_cut_log_is_found(log: list[Record], data: st.DataObject) -> None:
    end = log[-1].offset + 1
    current_end = data.draw(st.integers(0, end - 1))
    first, *_ = compare_logs(
        log, [record for record in log if record.offset < current_end], end, current_end
    ).changes
    assert first.description == f"ends at {current_end}, the certificate at {end}: records were cut off"


def test_records_in_holes_are_found() -> None:
    log = [Record(1, 0, b"a"), Record(11, 0, b"a")]
    (change,) = compare_logs(log, [log[0], Record(7, 0, b"new"), log[1]], 12, 12).changes
    assert change == (5, "offsets 5 to 9 were altered: the certificate knows no records there")


@given(st.lists(RECORDS, min_size=2, max_size=2))
def test_different_records_differ_in_bytes(records: list[Record]) -> None:
    first, second = (certificate.record_bytes(record) for record in records)
    assert (first == second) == _are_equal(*records)


def test_certificate_is_read_back() -> None:
    log = certify_log([Record(1, 0, b"a"), Record(7, 0, b"b")], 9)
    original = Certificate(
        aggregate="a", cluster="c", made="now", topics={"a.events": TopicCertificate("id", [log])}
    )
    assert read_certificate(write_certificate(original)) == original
    for text in (
        b"",
        b"{}",
        b"\xff",
        msgspec.json.encode({**msgspec.to_builtins(original), "format": "other"}),
    ):
        with pytest.raises(ValueError):
            read_certificate(text)


def test_bytes_of_a_record_are_stable() -> None:
    """A certificate is kept for years."""
    record = Record(7, 9, b"k", b"v", [("a", b"1"), ("bc", None)])
    assert certificate.record_bytes(record) == (
        b"\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x09"  # offset, timestamp
        b"\0\0\0\x01k\0\0\0\x02"  # key, number of headers
        b"\0\0\0\x01a\0\0\0\x011\0\0\0\x02bc\xff\xff\xff\xff"
        b"\0\0\0\x01v"
    )
    assert certificate.record_bytes(Record(0, 0)) == bytes(16) + b"\xff" * 4 + bytes(4) + b"\xff" * 4


def test_certificate_is_written_line_by_line() -> None:
    """Two certificates can be compared line by line."""
    text = write_certificate(Certificate(aggregate="a", cluster="c", made="now", topics={}))
    assert text.splitlines()[:3] == [b"{", b' "format": "cqrs.certificate/1",', b' "aggregate": "a",']


def test_cut_log_is_named_at_its_end() -> None:
    log = [Record(1, 0, b"a"), Record(7, 0, b"b")]
    assert compare_logs(log, log[:1], 8, 3).changes == [
        (3, "ends at 3, the certificate at 8: records were cut off")
    ]


def test_last_hash_ends_at_the_certificate() -> None:
    records = [Record(offset, 0, None, b"v", None) for offset in range(3)]
    cut_hasher, short_hasher = LogHasher(2, STRETCH), LogHasher(stretch=STRETCH)
    cut_hasher.hash_records(records)
    short_hasher.hash_records(records[:2])
    assert cut_hasher.finish(0, 3)[1] == short_hasher.finish(0, 2)[0].stretches[-1]
