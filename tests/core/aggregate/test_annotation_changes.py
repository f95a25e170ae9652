"""Removing the annotation of a personal field breaks encrypted data; adding an annotation is reported."""

import pytest

from cqrs_cli.core.aggregate.compatibility import compare_contracts
from tests.core.aggregate.contracts import contract_with

ANNOTATED = "name: Personal[str] = ''"


def annotation_changes(part: str, old: str, new: str) -> list[tuple[str, str, str]]:
    """Return the changes of a field of the command (`put`), the event (`done`) or the state (`box`)."""
    changes = compare_contracts(contract_with(**{part: old}), contract_with(**{part: new}))
    return [(change.level, change.description, change.remedy) for change in changes]


@pytest.mark.parametrize(
    ("part", "expected", "advice"),
    [
        ("put", "command Put, field name: is no longer personal", "keep the annotation"),
        ("done", "event Done, field name: is no longer personal", "events on the log have it encrypted"),
        ("box", "the state, field name: is no longer personal", "shards would store it unencrypted"),
    ],
)
def test_annotation_must_not_be_removed(part: str, expected: str, advice: str) -> None:
    level, description, remedy = annotation_changes(part, ANNOTATED, "name: str = ''")[0]
    assert (level, description, advice in remedy) == ("red", expected, True)


def test_type_change_reports_the_annotation() -> None:
    changes = annotation_changes("done", ANNOTATED, "name: int = 0")
    assert ("red", "event Done, field name: is no longer personal") in [change[:2] for change in changes]


def test_upcaster_allows_removing_the_annotation() -> None:
    decider = "upcasters={'Done': lambda old: Done(0)}"
    new = contract_with(done="name: str = ''", decider=decider)
    assert {change.level for change in compare_contracts(contract_with(done=ANNOTATED), new)} == {"amber"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: str = ''", ANNOTATED, "is personal now: older records keep the plain value"),
        (
            ANNOTATED,
            ANNOTATED.replace("Personal[str]", "Annotated[str, personal(erased='x')]"),
            "is 'x' when it is erased",
        ),
    ],
)
def test_added_or_changed_annotation_is_amber(old: str, new: str, expected: str) -> None:
    level, description, _ = annotation_changes("done", old, new)[0]
    assert level == "amber" and f"event Done, field name: {expected}" in description
