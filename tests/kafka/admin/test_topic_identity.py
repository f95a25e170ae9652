"""A recreated topic is another topic."""

from collections.abc import Collection, Mapping

import pytest

from cqrs_cli.errors import ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topic_identity import SeenTopic, TopicIdentity

KNOWN = {"a.events": "1", "b.events": "2"}


def changed(topic: str, made_again: bool) -> CqrsError:
    return ContradictionError(f"{topic} {made_again}")


def watched(found: Mapping[str, str], every: float = 0.0) -> TopicIdentity:
    def ask(topics: Collection[str]) -> Mapping[str, SeenTopic]:
        if not found:
            raise UnavailableError("away")
        return {topic: SeenTopic(known, 4) for topic, known in found.items()}

    return TopicIdentity(KNOWN, ask, changed, every)


def test_same_topics_are_followed() -> None:
    assert watched(KNOWN).check_if_due() == {"a.events": 4, "b.events": 4}


@pytest.mark.parametrize(
    ("found", "said"),
    [({**KNOWN, "b.events": "3"}, "b.events True"), ({"b.events": "2"}, "a.events False")],
    ids=["made again", "deleted"],
)
def test_another_topic_ends_following(found: Mapping[str, str], said: str) -> None:
    with pytest.raises(ContradictionError, match=said):
        watched(found).check_if_due()


def test_absent_broker_proves_nothing() -> None:
    watched({}).check_if_due()
    with pytest.raises(UnavailableError):
        watched({}).check_ids()


def test_looks_are_seldom() -> None:
    watched({**KNOWN, "b.events": "3"}, every=60.0).check_if_due()
