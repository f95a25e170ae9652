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
from tests.state.shards import IDENTITY, Opening, Python
from tests.state.values import WINDOW, OpenStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank_account.events" / "0"


@pytest.fixture
def opening(path: Path) -> Iterator[Opening]:
    """A function that opens the shard of this test. Opened shards are closed after the test."""
    opened: list[OpenShard] = []

    def open_it(identity: Identity = IDENTITY, **options: Any) -> OpenShard:
        opened.append(open_shard(path, identity, **options))
        return opened[-1]

    yield open_it
    for one in opened:
        one.store.close()


@pytest.fixture
def python(path: Path) -> Iterator[Python]:
    """A function that starts another process with the shard of this test as `opened`."""
    started: list[subprocess.Popen[str]] = []
    prelude = f"""
import os, signal
from pathlib import Path
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_shard
from tests.state.shards import IDENTITY
from tests.state.values import saved, write
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
    opened: list[LmdbStore] = []

    def open_one(path: Path = tmp_path / "0", **options: object) -> LmdbStore:
        opened.append(LmdbStore(path, WINDOW, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
