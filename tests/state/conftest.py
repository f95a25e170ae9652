"""The shard of a test, for this process and for others."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.state.identity import Identity
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import OpenShard, open_shard
from tests.state.shards import IDENTITY, OpenTestShard, StartPython
from tests.state.values import WINDOW, OpenStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank_account.events" / "0"


@pytest.fixture
def open_test_shard(path: Path) -> Iterator[OpenTestShard]:
    """A function that opens the shard of this test. Opened shards are closed after the test."""
    shards: list[OpenShard] = []

    def open_shard_of_test(identity: Identity = IDENTITY, **options: Any) -> OpenShard:
        shards.append(open_shard(path, identity, **options))
        return shards[-1]

    yield open_shard_of_test
    for shard in shards:
        shard.store.close()


@pytest.fixture
def start_python(path: Path) -> Iterator[StartPython]:
    """A function that starts Python code in another process. In the code, `opened` is the shard of this test."""
    started: list[subprocess.Popen[str]] = []
    prelude = f"""
import os, signal
from pathlib import Path
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_shard
from tests.state.shards import IDENTITY
from tests.state.values import stored_state, write
opened = open_shard(Path({str(path)!r}), IDENTITY)
"""

    def start(code: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", prelude + textwrap.dedent(code)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """A function that opens the store of this test. Opened stores are closed after the test."""
    stores: list[LmdbStore] = []

    def open_lmdb_store(path: Path = tmp_path / "0", **options: object) -> LmdbStore:
        stores.append(LmdbStore(path, WINDOW, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield open_lmdb_store
    for store in stores:
        store.close()
