"""Offsets of times: a time before 1970 is not taken for one of Kafka's negative codes, such as -1 for the log's end."""

import pytest

from cqrs_cli.kafka import readers
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("timestamp", [0, -1, -2, -3, -5, -(2**62)])
def test_times_before_1970_find_everything(counters: TopicHarness, timestamp: int) -> None:
    counters.send(*increment_commands(2))
    topic = counters.topics.commands
    assert readers.offset_at(counters.connection, topic, 0, timestamp) == 0
