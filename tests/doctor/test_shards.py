"""Changed code under one revision is found by the shards that it would go on with."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.doctor.shards import check_revision
from cqrs_cli.owner.plan import shard_folder
from tests.support import AGGREGATES
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


def doubled(folder: Path) -> Aggregate:
    """A counter that counts twice."""
    source = (AGGREGATES / "counter.py").read_text()
    (folder / "doubled").mkdir()
    (folder / "doubled" / "__init__.py").touch()
    (folder / "doubled" / "counter.py").write_text(source.replace("value + by", "value + 2 * by"))
    return registry.load("counter", "doubled", folder)


def test_forgotten_revision_is_a_warning(counters: TopicHarness, tmp_path: Path) -> None:
    shards = shard_folder(counters.folder / "state", counters.topics)
    assert list(check_revision(shards, counters.aggregate)) == []
    quietly(counters.plan())
    assert [check.status for check in check_revision(shards, counters.aggregate)] == ["ok"]
    changed = doubled(tmp_path)
    (warning,) = check_revision(shards, changed)
    assert warning.status == "warn"
    assert warning.detail == "the code of counter changed but not its revision, 1: partition 0"
    assert "Decider(…, revision=2)" in warning.hint
    raised = Aggregate.of("counter", replace(changed.decider, revision=2))
    assert [check.status for check in check_revision(shards, raised)] == ["ok"]
