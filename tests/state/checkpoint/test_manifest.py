"""A checkpoint is used if it is complete, of this log and code, and not ahead. Otherwise its error names the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.messages.record import Record
from cqrs_cli.state.checkpoint.manifest import mismatch_reason, read_manifest
from cqrs_cli.state.evidence import evidence
from tests.state.shards import IDENTITY, MANIFEST

ENDS = {"commands": 40, "events": 50, "outcomes": 60, "deferred": 7}


def test_manifest_is_read_back() -> None:
    name, content = MANIFEST.encoded()
    assert read_manifest(name, content) == MANIFEST
    assert (name.startswith(MANIFEST.stem), MANIFEST.data_file) == (True, f"{MANIFEST.stem}.mdb")


@given(index=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_altered_manifest_is_refused(index: int, flip: int) -> None:
    name, content = MANIFEST.encoded()
    index %= len(content)
    for damaged in (content[:index], content[:index] + bytes([content[index] ^ flip]) + content[index + 1 :]):
        with pytest.raises(ValueError, match="its manifest is damaged"):
            read_manifest(name, damaged)


def test_other_version_is_refused() -> None:
    with pytest.raises(ValueError, match="of another version"):
        read_manifest(*replace(MANIFEST, format=1).encoded())


@pytest.mark.covers("checkpoint")
def test_checkpoint_at_the_ends_fits() -> None:
    assert mismatch_reason(MANIFEST, IDENTITY, "", ENDS) == ""


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster_id": "c2"}, "cluster_id was c1 and is c2"),
        ({"topics": {**IDENTITY.topics, "events": "t9"}}, "topics was"),
        ({"partition": 1}, "partition was 0 and is 1"),
        ({"partitions": 8}, "partitions was 4 and is 8"),
        ({"schema": "other"}, "fields of its events or its state have changed"),
        ({"revision": 2}, "revision was 1 and is 2"),
        ({"window_ms": 2000}, "window_ms was 1000 and is 2000"),
        ({"codec": 99}, "codec was"),
    ],
)
def test_other_identity_does_not_fit(changes: dict[str, object], reason: str) -> None:
    assert mismatch_reason(MANIFEST, replace(IDENTITY, **changes), "", ENDS).startswith(reason)


@pytest.mark.covers("checkpoint")
@pytest.mark.parametrize("kind", list(ENDS))
def test_checkpoint_ahead_does_not_fit(kind: str) -> None:
    ends = {**ENDS, kind: ENDS[kind] - 1}
    assert mismatch_reason(MANIFEST, IDENTITY, "", ends).startswith(
        f"it is ahead of the log: it has the {kind} up to"
    )


@pytest.mark.covers("checkpoint")
def test_accepted_loss_rejects_older_checkpoints() -> None:
    assert "before a loss" in mismatch_reason(MANIFEST, IDENTITY, '{"at":3}', ENDS)
    assert mismatch_reason(replace(MANIFEST, loss='{"at":3}'), IDENTITY, '{"at":3}', ENDS) == ""


def test_other_machine_does_not_fit() -> None:
    assert "another byte order or word size (big, 32 bits)" in mismatch_reason(
        replace(MANIFEST, platform="big, 32 bits"), IDENTITY, "", ENDS
    )


_RECORDS = st.builds(
    Record,
    st.integers(0, 9),
    st.integers(0, 9),
    st.none() | st.binary(max_size=2),
    st.none() | st.binary(max_size=2),
)


@pytest.mark.covers("checkpoint")
@given(first=_RECORDS, second=_RECORDS)
def test_evidence_holds_for_one_record(first: Record, second: Record) -> None:
    assert evidence(first).matches(first) and evidence(first).offset == first.offset
    assert evidence(first).matches(second) == (replace(first, timestamp=0) == replace(second, timestamp=0))
    assert not evidence(first).matches(None)
