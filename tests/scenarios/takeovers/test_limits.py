"""A process with a low limit of open files: its owners raise the limit, or the run ends before the first claim."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import command
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def eight_partitions(connection: Connection, prefix: str, tmp_path: Path) -> Iterator[TopicHarness]:
    """A counter on eight partitions, with commands on each partition."""
    counters = TopicHarness(connection, prefix, tmp_path, partitions=8)
    counters.send(*(command("counter.Increment", f"key-{n}", f"i{n}") for n in range(100)))
    yield counters


def test_soft_limit_is_raised(eight_partitions: TopicHarness) -> None:
    """Eight owners have 224 descriptors open."""
    assert OwnerProcess(eight_partitions.plan(), open_files=(100, 1000)).error() is None
    eight_partitions.check()


@pytest.mark.covers("one-owner")
def test_low_hard_limit_takes_nothing_over(eight_partitions: TopicHarness) -> None:
    plan = eight_partitions.plan(once=False)
    with running_owners(plan) as owner:
        eventually(lambda: all(eight_partitions.owning_run(partition) == plan.run for partition in range(8)))
        error = OwnerProcess(eight_partitions.plan(once=False), open_files=(100, 250)).error()
        assert isinstance(error, ConfigurationError) and error.exit_code == 3
        assert (
            "a task that owns 8 partitions needs 420 open files, and a process may have 250" in error.message
        )
        assert "LimitNOFILE=420" in error.hint
        eight_partitions.send(command("counter.Increment", "key-0", "last"))
        eventually(
            lambda: sum(len(eight_partitions.records("outcomes", partition)) for partition in range(8)) == 101
        )
        assert not owner.has_ended()
