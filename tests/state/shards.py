"""A sample shard for tests that open, close and damage it, and that kill its process."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from cqrs_cli.state.checkpoint.manifest import Manifest
from cqrs_cli.state.evidence import Evidence
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import OpenShard
from cqrs_cli.state.shutdown_marker import ShutdownMarker
from cqrs_cli.state.store import Positions
from tests.state.values import stored_state, write

IDENTITY = Identity(
    cluster_id="c1",
    topics={"commands": "t1", "events": "t2", "outcomes": "t3"},
    partition=0,
    partitions=4,
    schema="5ca1ab1e",
    revision=1,
    window_ms=1000,
)

#: A function that opens the shard of a test.
OpenTestShard = Callable[..., OpenShard]

#: A function that starts a process which runs the given code; there `opened` is the open shard of the test.
StartPython = Callable[[str], subprocess.Popen[str]]


def read_marker(path: Path) -> ShutdownMarker:
    return msgspec.json.decode((path / "mark.json").read_bytes(), type=ShutdownMarker)


def change_marker(path: Path, **changes: object) -> None:
    marker = msgspec.structs.replace(read_marker(path), **changes)
    (path / "mark.json").write_bytes(msgspec.json.encode(marker))


def fill_and_close(open_test_shard: OpenTestShard) -> None:
    store = open_test_shard().store
    write(store, states={"a": stored_state()})
    store.close()


def fill_and_kill(start_python: StartPython) -> None:
    process = start_python("""
        write(opened.store, states={"a": stored_state()})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert process.wait(30) == -9


POSITIONS = Positions(40, 50, 60, 9, 7, Evidence(49, "e" * 64))


MANIFEST = Manifest(
    written=1_700_000_000_000,
    identity=IDENTITY,
    positions=POSITIONS,
    loss="",
    aggregates=3,
    size=8192,
    sha256="ab" * 32,
)
