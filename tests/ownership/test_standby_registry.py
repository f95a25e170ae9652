"""The standby registry: pure tests, with clocks that may differ a little."""

from cqrs_cli.ownership.claim import MAX_METADATA
from cqrs_cli.ownership.standby_registry import (
    MAX_REGISTRATIONS,
    REGISTRATION_TTL,
    valid_registrations,
    with_registration,
)


def runs(roll: str, now: int) -> list[str]:
    return [run.run for run in valid_registrations(roll, now)]


def test_everyone_signs_once() -> None:
    roll = with_registration(with_registration(with_registration("", "a", 0), "b", 1), "a", 2)
    assert runs(roll, 3) == ["b", "a"]


def test_silent_runs_leave_the_roll() -> None:
    roll = with_registration(with_registration("", "a", 0), "b", REGISTRATION_TTL)
    assert runs(roll, REGISTRATION_TTL + 1) == ["b"]
    assert runs(roll, 3 * REGISTRATION_TTL) == []


def test_other_texts_are_empty_rolls() -> None:
    assert [valid_registrations(text, 0) for text in ("", "{}", "\0", '["a",1]')] == [[]] * 4


def test_roll_fits_beside_an_offset() -> None:
    roll = ""
    for number in range(2 * MAX_REGISTRATIONS):
        roll = with_registration(roll, f"{number:0100}", number)
    assert len(runs(roll, 2 * MAX_REGISTRATIONS)) == MAX_REGISTRATIONS
    assert len(roll) < MAX_METADATA
