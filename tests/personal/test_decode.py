"""Events for consumers in Python, decrypted with the project's keyring."""

from types import SimpleNamespace
from typing import Any

import pytest

import cqrs_cli as cqrs
from tests.personal.people import FIRST_KEY, SECOND_KEY, People
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def names(people: People) -> list[Any]:
    """Return the names in the events, as a consumer decodes them."""
    topic = people.topics.events
    records = [one for one in people.harness.records("events") if b"Registered" in (one.value or b"")]
    messages = [
        SimpleNamespace(value=one.value, topic=topic, partition=0, offset=one.offset) for one in records
    ]
    return [cqrs.decode(one, project=people.folder).event.name for one in messages]  # type: ignore[attr-defined]


def test_consumers_get_values_with_the_ring(people: People) -> None:
    people.configure(with_keyring=True)
    people.register_with_new_key("ann", FIRST_KEY)
    assert names(people) == ["Ann Smith"]


def test_consumers_without_ring_get_placeholders(people: People) -> None:
    people.configure(with_keyring=False)
    people.register_with_new_key("ann", FIRST_KEY)
    assert names(people) == [""]


def test_erased_values_are_not_decoded(people: People) -> None:
    people.configure(with_keyring=True)
    people.register_with_new_key("ann", FIRST_KEY)
    people.register_with_new_key("bob", SECOND_KEY)
    assert names(people) == ["Ann Smith"] * 2
    people.erase("ann", FIRST_KEY)
    eventually(lambda: names(people) == ["", "Ann Smith"], 5)
