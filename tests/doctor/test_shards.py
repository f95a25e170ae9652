"""The doctor compares the code with the shards: an `evolve` that changed under the same revision is a warning."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import shards_folder_of
from cqrs_cli.doctor.shards import check_revision
from tests.support import AGGREGATES
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_task

pytestmark = pytest.mark.kafka


def changed_counter(folder: Path, name: str, old: str, new: str) -> Aggregate:
    """Return a counter whose source has `new` instead of `old`, in a package of this name."""
    source = (AGGREGATES / "counter.py").read_text()
    assert old in source
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    (folder / name / "counter.py").write_text(source.replace(old, new))
    return registry.load("counter", name, folder)


def counter_with_other_evolve(folder: Path) -> Aggregate:
    """Return a counter whose `evolve` counts twice."""
    return changed_counter(folder, "counter_with_other_evolve", "value + by", "value + 2 * by")


def counter_with_other_decide(folder: Path) -> Aggregate:
    """Return a counter with another `decide` and the same `evolve`."""
    return changed_counter(folder, "counter_with_other_decide", "if by != 0", "if by > 0")


def test_forgotten_revision_is_a_warning(counters: TopicHarness, tmp_path: Path) -> None:
    shards = shards_folder_of(counters.folder / "state", counters.topics)
    assert list(check_revision(shards, counters.aggregate)) == []
    run_plan(counters.plan())
    assert [check.status for check in check_revision(shards, counters.aggregate)] == ["ok"]
    aggregate = counter_with_other_evolve(tmp_path)
    (warning,) = check_revision(shards, aggregate)
    assert warning.status == "warn"
    assert warning.detail == "evolve of counter changed but not its revision, 1: partition 0"
    assert "Decider(…, revision=2)" in warning.hint
    with_new_revision = Aggregate.of("counter", replace(aggregate.decider, revision=2))
    assert [check.status for check in check_revision(shards, with_new_revision)] == ["ok"]


def test_changed_decide_is_ok(counters: TopicHarness, tmp_path: Path) -> None:
    run_plan(counters.plan())
    shards = shards_folder_of(counters.folder / "state", counters.topics)
    assert [check.status for check in check_revision(shards, counter_with_other_decide(tmp_path))] == ["ok"]


def test_run_reports_only_changed_evolve(counters: TopicHarness, tmp_path: Path) -> None:
    notes = []
    for change in (None, counter_with_other_decide, counter_with_other_evolve):
        plan = counters.plan()
        if change is not None:
            change(tmp_path)
            plan = replace(plan, package=change.__name__, root=tmp_path)
        notes.append([note for result in run_plan_task(plan) for note in result.notes])
    assert notes[:2] == [[], []]
    assert "evolve of counter changed but not its revision" in notes[2][0]
