"""The history of a grown aggregate, decided again: each family of partitions as one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cqrs_cli.jobs.whatif import DecidedAgain, decide_partition_again, plan_whatif, together
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.growing import counters, grow_twice
from tests.support import AGGREGATES
from tests.support.growth import reasons
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

Again = Callable[..., DecidedAgain]


@pytest.fixture
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    single = counters(connection, prefix, tmp_path, 1)
    grow_twice(single)
    return single


@pytest.fixture
def again(grown: TopicHarness, tmp_path: Path) -> Again:
    """Decides all again: by the same code, or by code that counts twice."""
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    (tmp_path / "drafts").mkdir()
    source = (
        (AGGREGATES / "counter.py").read_text().replace("yield Incremented(by)", "yield Incremented(2 * by)")
    )
    (tmp_path / "drafts" / "twice.py").write_text(source)
    settings = grown.settings.model_copy(update={"root": tmp_path})

    def decided(module: str = "aggregates.counter", **times: int) -> DecidedAgain:
        plan = plan_whatif(grown.connection, grown.topics, settings, module, **times)
        results = [decide_partition_again(plan, number) for number in plan.families]
        assert [result.error for result in results] == [None]
        return together(results, 1.0)

    return decided


def test_same_code_makes_no_difference(again: Again, grown: TopicHarness) -> None:
    done = again()
    assert (dict(done.counts), done.aggregates) == ({}, 12)
    assert done.commands == sum(len(grown.outcomes(number)) for number in range(4))


def test_other_code_is_compared_once(again: Again, grown: TopicHarness) -> None:
    """Each command where it was decided, each aggregate where it is now."""
    done = again("drafts.twice")
    accepted = sum(reasons(grown, number)["accepted"] for number in range(4))
    assert dict(done.counts) == {
        ("events", "accepted", "accepted"): accepted,
        ("state", "exists", "exists"): 12,
    }


def test_stretches_may_begin_and_end_anywhere(again: Again, grown: TopicHarness) -> None:
    times = sorted({one.timestamp for number in range(4) for one in grown.records("commands", number)})
    found = [again(since=one).counts + again(until=one).counts for one in times]
    assert len(found) > 8 and found == [{}] * len(found)
