"""A recreated topic is another topic."""

from collections.abc import Collection, Mapping

import pytest

from cqrs_cli.errors import ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topic_identity import SeenTopic, TopicIdentity

KNOWN = {"a.events": "1", "b.events": "2"}


def recreation_error(topic: str, is_recreated: bool) -> CqrsError:
    return ContradictionError(f"{topic} {is_recreated}")


def topic_identity(visible_ids: Mapping[str, str], interval: float = 0.0) -> TopicIdentity:
    def read_topics(topics: Collection[str]) -> Mapping[str, SeenTopic]:
        if not visible_ids:
            raise UnavailableError("away")
        return {topic: SeenTopic(topic_id, 4) for topic, topic_id in visible_ids.items()}

    return TopicIdentity(KNOWN, read_topics, recreation_error, interval)


def test_same_topics_pass() -> None:
    assert topic_identity(KNOWN).check_if_due() == {"a.events": 4, "b.events": 4}


@pytest.mark.parametrize(
    ("visible_ids", "message"),
    [({**KNOWN, "b.events": "3"}, "b.events True"), ({"b.events": "2"}, "a.events False")],
    ids=["recreated", "deleted"],
)
def test_recreated_topic_is_an_error(visible_ids: Mapping[str, str], message: str) -> None:
    with pytest.raises(ContradictionError, match=message):
        topic_identity(visible_ids).check_if_due()


def test_absent_broker_is_no_recreation() -> None:
    topic_identity({}).check_if_due()
    with pytest.raises(UnavailableError):
        topic_identity({}).check_ids()


def test_checks_have_an_interval() -> None:
    topic_identity({**KNOWN, "b.events": "3"}, interval=60.0).check_if_due()
