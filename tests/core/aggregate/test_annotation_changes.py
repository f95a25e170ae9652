"""Removing the annotation of a personal field breaks encrypted data; adding one is reported."""

import pytest

from cqrs_cli.core.aggregate.compatibility import compare_contracts
from tests.core.aggregate.contracts import made

MARKED = "name: Personal[str] = ''"


def marking(part: str, before: str, today: str) -> list[tuple[str, str, str]]:
    """Return the changes of a field of the command (`put`), the event (`done`) or the state (`box`)."""
    return [tuple(change) for change in compare_contracts(made(**{part: before}), made(**{part: today}))]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("part", "what", "do"),
    [
        ("put", "command Put, field name: is no longer personal", "keep the mark"),
        ("done", "event Done, field name: is no longer personal", "events on the log have it sealed"),
        ("box", "the state, field name: is no longer personal", "shards would keep it as it is"),
    ],
)
def test_mark_may_not_be_taken_off(part: str, what: str, do: str) -> None:
    level, said, todo = marking(part, MARKED, "name: str = ''")[0]
    assert (level, said, do in todo) == ("red", what, True)


def test_mark_goes_with_no_change_of_type() -> None:
    found = marking("done", MARKED, "name: int = 0")
    assert ("red", "event Done, field name: is no longer personal") in [one[:2] for one in found]


def test_upcaster_takes_the_mark_off() -> None:
    decider = "upcasters={'Done': lambda old: Done(0)}"
    today = made(done="name: str = ''", decider=decider)
    assert {change.level for change in compare_contracts(made(done=MARKED), today)} == {"amber"}


@pytest.mark.parametrize(
    ("before", "today", "what"),
    [
        ("name: str = ''", MARKED, "is personal now: what was written before stays as it is"),
        (
            MARKED,
            MARKED.replace("Personal[str]", "Annotated[str, personal(erased='x')]"),
            "is 'x' when it is erased",
        ),
    ],
)
def test_mark_is_put_on_and_changed(before: str, today: str, what: str) -> None:
    level, said, _ = marking("done", before, today)[0]
    assert level == "amber" and f"event Done, field name: {what}" in said
