"""Clients that send with an outdated partition count: a client that waits gets the final outcome."""

from pathlib import Path

import pytest

from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.repartitioned_counters import SUBJECTS, check_decided_once, counters, round_commands
from tests.support.java import stale_java_producer
from tests.support.owners import run_plan, running_owners
from tests.support.repartitioning import count_reasons, current_lineage, final_statuses, repartition_topics
from tests.support.traffic import StaleProducer
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("growing")
def test_client_waits_for_forwarded_commands(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """A client gets the outcomes of commands that are forwarded over two repartitionings.

    The outcome may exist before the client reads.
    """
    single = counters(connection, prefix, tmp_path, 1)
    repartition_topics(single, 2)
    repartition_topics(single, 4)
    with (
        running_owners(single.plan(once=False)),
        StaleProducer(connection, 1) as sender,
        OutcomeWaiter(connection, sender) as waiter,
    ):
        eventually(lambda: current_lineage(single).activated == {1, 2, 3})
        for number in (0, 1):
            for subject, record in zip(SUBJECTS, round_commands(number), strict=True):
                waiter.send(single.topics, subject.encode(), record.value or b"", f"{subject}.{number}")
        outcomes = [outcome for batch in waiter.remaining_outcomes(20) for outcome in batch]
    assert sorted(outcome.number for outcome in outcomes) == list(range(1, 25)) and not waiter.outstanding
    assert {outcome.envelope.data.status for outcome in outcomes} == {"accepted"}
    assert {outcome.envelope.data.partition for outcome in outcomes} == {
        single.partition_of(subject) for subject in SUBJECTS
    }
    check_decided_once(single, 0, 1)


@pytest.mark.slow
def test_stale_java_producer_loses_no_command(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """The producer caches the partition count for an hour, and hashes as Java does."""
    pair = counters(connection, prefix, tmp_path)
    with stale_java_producer(tmp_path, connection.bootstrap_server, pair.topics.commands) as producer:
        producer.send(0)
        repartition_topics(pair, 4)
        run_plan(pair.plan())
        producer.send(1)
        with running_owners(pair.plan(once=False)):
            eventually(lambda: len(final_statuses(pair)) == 24)
    assert sum(count_reasons(pair, partition)["MOVED"] for partition in (0, 1)) == sum(
        pair.partition_of(subject) > 1 for subject in SUBJECTS
    )
    check_decided_once(pair, 0, 1)
