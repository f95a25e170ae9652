"""A grown aggregate on a real broker: the work of its owners is proved over the splits, and faults are found."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.growing import FAR, counters, released, round_of
from tests.jobs.verify.proving import verified
from tests.support.growth import grow, stale
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


@pytest.fixture
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters over 1 → 2 → 4, with commands that wait over both splits, and clients that know of none."""
    single = counters(connection, prefix, tmp_path, 1)
    single.send(*round_of(0), *round_of(1, notbefore=FAR))
    quietly(single.plan())
    grow(single, 2)
    single.send(*round_of(1), *(stale(one, 1) for one in round_of(2)))
    quietly(single.plan())
    single.send(*(stale(one, 1) for one in round_of(3)))
    grow(single, 4)
    quietly(single.plan())
    single.send(*(stale(one, 2) for one in round_of(0)), *(stale(one, 1) for one in released(1)))
    quietly(single.plan())
    return single


def test_owners_over_two_growths_are_proved(grown: TopicHarness) -> None:
    done = verified(grown)
    assert [str(one) for one in done.violations] == []
    assert done.total("aggregates") == 12
    assert sum(count for one in done.reports.values() for count, _ in one.moved.values()) > 12
