"""Following a topic without a broker."""

from contextlib import closing

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.admin.topic_identity import SeenTopic, TopicIdentity
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.tailing import follow_records
from tests.support.absent_broker import unused_address
from tests.support.waiting import eventually


def test_silent_brokers_are_noted() -> None:
    address, notes = unused_address(), list[str]()
    identity = TopicIdentity({}, lambda topics: {}, lambda topic, is_recreated: None)
    stream = follow_records(
        Connection(address), "a.events", {0: 0}, lambda record: True, notes.append, identity
    )
    with closing(stream):
        eventually(lambda: next(stream) == [] and notes)
        assert next(stream) == [] and notes == [f"no answer from {address}; still trying"]


def test_recreated_topic_ends_the_stream() -> None:
    """The gateway and `tail --follow` end in this case."""
    error, visible_topics = ContradictionError("another topic"), {"a.events": SeenTopic("2", 1)}
    identity = TopicIdentity(
        {"a.events": "1"}, lambda topics: visible_topics, lambda topic, is_recreated: error, interval=0.0
    )
    stream = follow_records(
        Connection(unused_address()), "a.events", {0: 0}, lambda record: True, print, identity
    )
    with closing(stream), pytest.raises(ContradictionError, match="another topic"):
        next(stream)
