"""The progress of a run, read from the claims."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.ownership import committed_claims
from cqrs_cli.runs.progress import Progress
from cqrs_cli.runs.reports import Reports
from tests.support.commands import increment_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)),
        readers.MissingPartitionError("counter.commands partition 0 does not exist", "create it"),
    ],
    ids=["unknown", "missing"],
)
def test_error_replaces_the_client(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    counters.send(*increment_commands(3))
    plan = counters.plan()
    run_plan(plan)
    clients = []

    def fails(client: object, *_: object) -> None:
        clients.append(client)
        raise error

    with Reports("127.0.0.1") as reports, Progress(plan, reports) as progress:
        with monkeypatch.context() as patch:
            patch.setattr(committed_claims, "all_watermarks", fails)
            for _ in range(2):
                with pytest.raises(UnavailableError, match="no answer from Kafka"):
                    progress.poll_progress()
        assert clients[0] is not clients[1]
        assert progress.poll_progress().total("commands") == 3


def test_standby_owns_nothing_any_more(counters: TopicHarness) -> None:
    """The standby was active before, and was taken over: its earlier decisions still count."""
    counters.send(*increment_commands(3))
    plan = counters.plan(timing=replace(SHORT_TIMEOUTS, standby_timeout=0.5))
    with Reports("127.0.0.1") as reports, Progress(plan, reports) as progress:
        run_plan(plan)
        assert not progress.poll_progress().unowned
        run_plan(counters.plan(machine="second"))
        snapshot = progress.poll_progress()
        assert snapshot.unowned == tuple(plan.partitions()) and snapshot.total("commands") == 3
