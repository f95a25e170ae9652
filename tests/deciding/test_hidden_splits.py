"""An open transaction hides a split: the readers that wait for it, and their timeouts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

import pytest

from cqrs_cli.core.messages.repartitioning import Split, lineage_value
from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.kafka import clients, segments
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import HIDDEN_RECORD_TIMEOUT, HiddenLineageError, read_lineage
from cqrs_cli.ownership.timing import Timing
from tests.deciding.repartitioned_counters import counters
from tests.support.harness import TopicHarness
from tests.support.repartitioning import current_lineage, repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


@contextmanager
def splitting(pair: TopicHarness) -> Iterator[None]:
    """The split's transaction is open during the test, and is committed at the end."""
    writer = clients.producer(pair.connection, transactional_id=pair.topics.group)
    writer.init_transactions(10)
    writer.begin_transaction()
    writer.produce(pair.topics.lineage, lineage_value(Split(0, 2, 4, 0, 0, 0, 0, 0)))
    assert writer.flush(10) == 0
    yield
    writer.commit_transaction(10)


def test_hidden_split_is_waited_for(pair: TopicHarness) -> None:
    """The timeout is longer than the broker keeps the transaction of a killed owner open."""
    assert Timing().transaction_timeout < HIDDEN_RECORD_TIMEOUT
    repartition_topics(pair, 4)
    with splitting(pair):
        with pytest.raises(HiddenLineageError):
            read_lineage(pair.connection, pair.topics, 4, timeout=0.1)
        operator = threading.Thread(target=repartition, args=(pair.connection, pair.topics, 4, "murmur2"))
        operator.start()
    operator.join(60)
    assert not operator.is_alive() and len(current_lineage(pair).splits) == 1


def test_counts_need_no_split(pair: TopicHarness) -> None:
    """A reader of whole logs needs no hidden split. A request that is hidden after the split needs to be read."""
    repartition_topics(pair, 4)
    with splitting(pair):
        assert segments.find_partition_counts(pair.connection, pair.topics, "murmur2", 4).counts == (2, 4)
        with pytest.raises(HiddenLineageError):
            segments.find_partition_counts(pair.connection, pair.topics, "murmur2", 8, timeout=0.1)


def test_splits_are_waited_for_by_their_readers(pair: TopicHarness) -> None:
    """The timeout equals the timeout of `repartition`."""
    waiting = (segments.find_partition_counts, segments.find_lineage)
    assert {signature(function).parameters["timeout"].default for function in waiting} == {
        HIDDEN_RECORD_TIMEOUT
    }
    repartition_topics(pair, 4)
    found = []
    reader = threading.Thread(
        target=lambda: found.append(segments.find_lineage(pair.connection, pair.topics, 4))
    )
    with splitting(pair):
        with pytest.raises(HiddenLineageError):
            segments.find_lineage(pair.connection, pair.topics, 4, timeout=0.1)
        reader.start()
    reader.join(60)
    assert found == [current_lineage(pair)] and len(current_lineage(pair).splits) == 1
