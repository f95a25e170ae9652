"""A shard of another log, code or window is quarantined, and replaced by a fresh shard."""

import threading
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from cqrs_cli.observer import message_listener, observing
from cqrs_cli.state import shard
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import KEPT_QUARANTINED
from tests.state.shards import IDENTITY, OpenTestShard, fill_and_close

OTHER_IDENTITIES: dict[str, object] = {
    "cluster_id": "c2",
    "topics": {"commands": "t1", "events": "t2", "outcomes": "t4"},
    "partition": 1,
    "partitions": 8,
    "schema": "0",
    "revision": 2,
    "window_ms": 2000,
    "codec": 0,
}


@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize(("field", "value"), OTHER_IDENTITIES.items())
def test_shard_of_other_identity_is_quarantined(
    open_test_shard: OpenTestShard, field: str, value: object
) -> None:
    fill_and_close(open_test_shard)
    opened_shard = open_test_shard(msgspec.structs.replace(IDENTITY, **{field: value}))
    assert opened_shard.is_new
    advice = ": give each cluster a state_dir of its own" if field == "cluster_id" else ""
    assert opened_shard.reason == (
        "fields of its events or its state have changed"
        if field == "schema"
        else f"{field} was {getattr(IDENTITY, field)} and is {value}{advice}"
    )
    assert opened_shard.store.count() == 0


def test_every_identity_member_is_tested() -> None:
    assert OTHER_IDENTITIES.keys() == set(Identity.__struct_fields__)


def test_quarantined_folder_names_its_reason(open_test_shard: OpenTestShard, path: Path) -> None:
    fill_and_close(open_test_shard)
    notes: list[str] = []
    with observing(message_listener(notes.append)):
        opened_shard = open_test_shard(msgspec.structs.replace(IDENTITY, revision=2))
    assert opened_shard.quarantined and opened_shard.quarantined.parent == path.parent
    assert opened_shard.quarantined.name.endswith("Z-revision-was-1-and-is-2")
    assert notes == [
        f"state in {path} quarantined to be rebuilt from the log: revision was 1 and is 2 "
        f"({opened_shard.quarantined.name})"
    ]


def test_only_latest_quarantined_are_kept(open_test_shard: OpenTestShard, path: Path) -> None:
    notes: list[str] = []
    quarantined = []
    for revision in range(KEPT_QUARANTINED + 3):
        with observing(message_listener(notes.append)):
            opened_shard = open_test_shard(msgspec.structs.replace(IDENTITY, revision=revision))
        quarantined.append(opened_shard.quarantined)
        opened_shard.store.close()
    assert sorted(path.parent.glob("0.aside-*")) == quarantined[-KEPT_QUARANTINED:]
    assert [text for text in notes if text.startswith("removed")] == [
        f"removed {old}, quarantined earlier" for old in quarantined[1:-KEPT_QUARANTINED]
    ]


def test_all_differences_are_named() -> None:
    """Members that exist in only one of the two identities are included."""
    stored = msgspec.to_builtins(IDENTITY) | {"colour": "blue", "partition": 1}
    del stored["codec"]
    message = f"codec was None and is {IDENTITY.codec}, colour was blue and is None, partition was 1 and is 0"
    assert IDENTITY.differences(msgspec.json.encode(stored)) == message
    assert IDENTITY.differences(msgspec.json.encode(IDENTITY)) == ""


def test_other_cluster_is_the_only_difference() -> None:
    stored = msgspec.to_builtins(IDENTITY) | {"cluster_id": "c2", "partition": 1}
    message = IDENTITY.differences(msgspec.json.encode(stored))
    assert message == "cluster_id was c2 and is c1: give each cluster a state_dir of its own"


@pytest.mark.parametrize("stored", [b"", b"[]", b"null", b"\xff"])
def test_other_bytes_are_no_identity(stored: bytes) -> None:
    assert IDENTITY.differences(stored) == "it has no identity"


def test_stuck_opening_holds_no_process(path: Path) -> None:
    """LMDB waits for its lock without a limit, so the interpreter's exit must not wait for this thread."""
    opened_shard: object = shard._ShardOpener(path, cast(Any, threading.current_thread)).result(timeout=60)
    assert (
        isinstance(opened_shard, threading.Thread)
        and opened_shard.daemon
        and opened_shard.name == f"opening {path}"
    )
