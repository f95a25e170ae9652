"""Owners of partitions that have grown begin as cheaply as others, and miss no growth that came since."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import read_lineage
from tests.deciding.growing import check, counters, round_of
from tests.support.growth import grow, reasons, stale
from tests.support.harness import TopicHarness
from tests.support.owners import quietly, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """From one partition to two."""
    single = counters(connection, prefix, tmp_path, 1)
    single.send(*round_of(0))
    quietly(single.plan())
    grow(single, 2)
    return single


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A member for each time that an owner reads the lineage."""
    found = list[object]()

    def noted(*arguments: object) -> object:
        found.append(arguments)
        return read_lineage(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("cqrs_cli.deciding.plan.read_lineage", noted)
    return found


def test_a_finished_growth_costs_nothing(grown: TopicHarness, reads: list[object]) -> None:
    quietly(grown.plan())
    assert reads
    reads.clear()
    grown.send(*round_of(1))
    quietly(grown.plan())
    check(grown, 0, 1)
    assert not reads


@pytest.mark.pins("growing")
def test_owners_see_a_later_growth(grown: TopicHarness) -> None:
    """Its partitions have split by the hand of another run."""
    quietly(grown.plan())
    old = grown.plan(once=False)
    grow(grown, 4)
    between = grown.plan()
    quietly(between)
    with running(replace(old, run_epoch=between.run_epoch + 1)):
        grown.send(*(stale(one, 2) for one in round_of(1)))
        eventually(lambda: all(reasons(grown, one)["MOVED"] for one in (0, 1)))
    quietly(grown.plan())
    check(grown, 0, 1)
