"""An erased customer, and records with her values that a test adds."""

import json
from pathlib import Path
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.scans.erased.verify import ErasureReport, verify_erasure
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Positions, WriteBatch
from tests.support.harness import TopicHarness

ANN = "Ann-4711-of-Elm-Street"


def verify_erased(harness: TopicHarness, *folders: Path) -> ErasureReport:
    return verify_erasure(harness.connection, harness.topics, harness.aggregate, harness.settings, folders)


def only_violation(harness: TopicHarness, *folders: Path) -> str:
    """Return the only violation, which must not contain the value."""
    report = verify_erased(harness, *folders)
    (violation,) = [*map(str, report.topic_search.findings), *map(str, report.file_findings)]
    assert report.violation_count == 1 and ANN not in violation
    return violation


def write_shard(folder: Path, **states: StoredState) -> None:
    folder.mkdir(parents=True)
    store = LmdbStore(folder, window_ms=1)
    store.apply(WriteBatch(store.token(), Positions(), Positions(), states))
    store.close()


def shard_path(harness: TopicHarness) -> Path:
    return harness.folder / "state" / harness.topics.commands.removesuffix(".commands") / "0"


def deferred_record(harness: TopicHarness, data: dict[str, Any]) -> Record:
    """Return a record in which the first command is deferred with these data."""
    command = json.loads(harness.records("commands")[0].value or b"") | {"data": data}
    entry = {"subject": "ann", "id": "r", "fingerprint": 1, "version": 0, "timestamp": 1, "due": 1}
    value = entry | {"attempt": 0, "reason": "LATER", "command": command}
    return Record(0, 1, b"T/0", json.dumps(value).encode(), [])
