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
    records = [
        record for record in people.harness.records("events") if b"Registered" in (record.value or b"")
    ]
    messages = [
        SimpleNamespace(value=record.value, topic=topic, partition=0, offset=record.offset)
        for record in records
    ]
    return [cqrs.decode(message, project=people.folder).event.name for message in messages]  # type: ignore[attr-defined]


def test_consumers_get_values_with_the_keyring(people: People) -> None:
    people.configure(with_keyring=True)
    people.register_with_new_key("ann", FIRST_KEY)
    assert names(people) == ["Ann Smith"]


def test_consumers_without_keyring_get_redacted_values(people: People) -> None:
    people.configure(with_keyring=False)
    people.register_with_new_key("ann", FIRST_KEY)
    assert names(people) == [""]


def test_erased_values_are_redacted(people: People) -> None:
    people.configure(with_keyring=True)
    people.register_with_new_key("ann", FIRST_KEY)
    people.register_with_new_key("bob", SECOND_KEY)
    assert names(people) == ["Ann Smith"] * 2
    people.erase("ann", FIRST_KEY)
    eventually(lambda: names(people) == ["", "Ann Smith"], 5)
