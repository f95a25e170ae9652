"""The records of the lineage topic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.keyspace.records import (
    Begun,
    Grow,
    LineageRecord,
    Split,
    read_lineage_record,
)

COUNTS = st.integers(1, 2**31 - 1)
PARTITIONS = st.integers(0, 2**31 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
RECORDS = st.one_of(
    st.builds(Grow, COUNTS, COUNTS, st.text(), st.text()),
    st.builds(Split, PARTITIONS, COUNTS, COUNTS, *[OFFSETS] * 5),
    st.builds(Begun, PARTITIONS),
)


@given(RECORDS)
def test_records_are_read_back(record: LineageRecord) -> None:
    assert read_lineage_record(record.encode()) == record


def test_counts_are_from_and_to() -> None:
    assert json.loads(Split(1, 4, 12, 5120, 9310, 5098, 77, 9).encode()) == {
        "split": {
            "partition": 1,
            "from": 4,
            "to": 12,
            "commands": 5120,
            "events": 9310,
            "outcomes": 5098,
            "deferred": 77,
            "clock": 9,
        }
    }


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{}", b"[" * 9999, b'{"begun":{"partition":1},"grow":{"from":1,"to":2}}', b'{"split":{}}'],
)
def test_other_records_are_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError):
        read_lineage_record(value)
