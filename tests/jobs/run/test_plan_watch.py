"""A standby notices that the topics of its plan have changed."""

from pathlib import Path

import pytest

from cqrs_cli.errors import CqrsError
from cqrs_cli.runs.plan_watch import PlanChangedError, PlanWatch
from cqrs_cli.runs.source_files import SourceWatch
from tests.support.harness import TopicHarness
from tests.support.repartitioning import repartition_topics
from tests.support.topic_loss import recreate_topics
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def is_changed(watch: PlanWatch) -> bool:
    try:
        watch.check(())
    except PlanChangedError:
        return True
    return False


def test_more_partitions_need_a_new_plan(counters: TopicHarness) -> None:
    plan = counters.plan(once=False)
    watch, owner_watch = PlanWatch(plan, None), PlanWatch(plan, None)
    assert not is_changed(watch)
    repartition_topics(counters, 2)
    eventually(lambda: is_changed(watch))
    for _ in range(2):
        owner_watch.check(plan.partitions())


def test_recreated_topic_needs_a_new_plan(counters: TopicHarness) -> None:
    watch = PlanWatch(counters.plan(once=False), None)
    recreate_topics(counters, "commands")
    eventually(lambda: is_changed(watch))


def test_changed_files_end_no_owner(counters: TopicHarness, tmp_path: Path) -> None:
    plan = counters.plan(once=False)
    watch = PlanWatch(plan, None, SourceWatch(tmp_path, "aggregates", 0.0))
    (tmp_path / "cqrs.toml").touch()
    watch.check(plan.partitions())
    with pytest.raises(CqrsError, match="changed since this standby started"):
        watch.check(())
