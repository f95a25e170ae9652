"""Verifying and altering the topics of a harness."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.plan import Partition, shards_folder_of
from cqrs_cli.jobs.verify.certify import CertificateResult, certify_partition, compare_all, plan_certify
from cqrs_cli.jobs.verify.driver import VerifySummary, verify_in_process
from cqrs_cli.proof.certificate import Certificate
from cqrs_cli.scans.verify.plan import plan_verify
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_shard
from tests.support import ROOT
from tests.support.foreign_records import changed_record
from tests.support.harness import TopicHarness


def verify(harness: TopicHarness, machine: str | None = None) -> VerifySummary:
    """Verify the harness's topics, and the shards in its folder `machine`, if given."""
    shards = None
    if machine is not None:
        shards = shards_folder_of(harness.folder / machine, harness.topics)
    return verify_in_process(plan_verify(harness.connection, harness.topics, harness.settings, shards))


def certify(harness: TopicHarness, earlier_certificate: Certificate | None = None) -> CertificateResult:
    plan = replace(plan_certify(harness.connection, harness.topics, earlier_certificate), stretch_size=50)
    results = [certify_partition(plan, number) for number in range(harness.partitions)]
    assert [result.error for result in results] == [None] * harness.partitions
    return compare_all(plan, results, earlier_certificate, 1.0)


def edit_record(
    offset: int, data: dict[str, Any] | None = None, **members: Any
) -> Callable[[list[Record]], None]:
    def edit(log: list[Record]) -> None:
        log[offset] = changed_record(log[offset], data, **members)

    return edit


def violated_topic_kinds(harness: TopicHarness) -> set[str]:
    """Return the kinds of topics with violations."""
    return {violation.kind for violation in verify(harness).violations}


def run_cqrs(
    harness: TopicHarness, *arguments: str, with_code: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the installed `cqrs` in a project folder."""
    folder = harness.folder / "project"
    if not folder.is_dir():
        folder.mkdir()
        (folder / "cqrs.toml").touch()
        if with_code:
            (folder / "aggregates").symlink_to(ROOT / "aggregates")
    environment = {
        "CQRS_BOOTSTRAP_SERVER": harness.connection.bootstrap_server,
        "CQRS_TOPIC_PREFIX": harness.topics.prefix,
        "CQRS_STATE_DIR": str(harness.folder / "state"),
    }
    return subprocess.run(
        [sys.executable, "-m", "cqrs_cli", *arguments, "-q", "--master", "local[2]"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@contextmanager
def open_shard_0(harness: TopicHarness) -> Iterator[LmdbStore]:
    """Yield the shard of partition 0, open for writing."""
    identity = harness.plan().identity(Partition(harness.topics.aggregate, 0), harness.aggregate)
    shard = open_shard(harness.shard_path(), identity)
    assert not shard.is_new
    with closing(shard.store) as store:
        yield store
