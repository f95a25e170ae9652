"""An open transaction hides a split: the readers that wait for it, and their timeouts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path

import pytest

from cqrs_cli.deciding.repartition import repartition
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keyspace import key_space
from cqrs_cli.keyspace.lineage_log import HIDDEN_RECORD_TIMEOUT, HiddenLineageError, read_lineage
from cqrs_cli.keyspace.records import Split
from cqrs_cli.ownership.timing import Timing
from tests.deciding.repartitioned_counters import counters
from tests.support.harness import TopicHarness
from tests.support.repartitioning import current_lineage, repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


@contextmanager
def open_split_transaction(harness: TopicHarness) -> Iterator[None]:
    """The split's transaction is open during the test, and is committed at the end."""
    writer = clients.producer(harness.connection, transactional_id=harness.topics.group)
    writer.init_transactions(10)
    writer.begin_transaction()
    writer.produce(harness.topics.lineage, Split(0, 2, 4, 0, 0, 0, 0, 0).encode())
    assert writer.flush(10) == 0
    yield
    writer.commit_transaction(10)


def test_hidden_split_is_waited_for(harness: TopicHarness) -> None:
    """The timeout is longer than the broker keeps the transaction of a killed owner open."""
    assert Timing().transaction_timeout < HIDDEN_RECORD_TIMEOUT
    repartition_topics(harness, 4)
    with open_split_transaction(harness):
        with pytest.raises(HiddenLineageError):
            read_lineage(harness.connection, harness.topics, 4, timeout=0.1)
        operator = threading.Thread(
            target=repartition, args=(harness.connection, harness.topics, 4, "murmur2")
        )
        operator.start()
    operator.join(60)
    assert not operator.is_alive() and len(current_lineage(harness).splits) == 1


def test_partition_counts_need_no_split(harness: TopicHarness) -> None:
    """A reader of whole logs needs no hidden split. A request that is hidden after the split needs to be read."""
    repartition_topics(harness, 4)
    with open_split_transaction(harness):
        visible = key_space.visible_key_space(harness.connection, harness.topics, "murmur2", 4)
        assert visible.counts == (2, 4)
        with pytest.raises(HiddenLineageError):
            key_space.visible_key_space(harness.connection, harness.topics, "murmur2", 8, timeout=0.1)


def test_readers_wait_for_hidden_splits(harness: TopicHarness) -> None:
    """The timeout equals the timeout of `repartition`."""
    functions = (
        key_space.visible_key_space,
        key_space.read_key_space,
        key_space.requested_key_space,
    )
    assert {signature(function).parameters["timeout"].default for function in functions} == {
        HIDDEN_RECORD_TIMEOUT
    }
    repartition_topics(harness, 4)
    read = partial(key_space.read_key_space, harness.connection, harness.topics, "murmur2", 4)
    lineages = []
    reader = threading.Thread(target=lambda: lineages.append(read().lineage))
    with open_split_transaction(harness):
        with pytest.raises(HiddenLineageError):
            read(timeout=0.1)
        reader.start()
    reader.join(60)
    assert lineages == [current_lineage(harness)] and len(current_lineage(harness).splits) == 1
