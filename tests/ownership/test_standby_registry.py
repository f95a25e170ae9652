"""The standby registry: pure tests, with clocks that may differ a little."""

from cqrs_cli.ownership.claim import MAX_METADATA
from cqrs_cli.ownership.standby_registry import MOST_NAMES, PRESENT_FOR, present, signed


def runs(roll: str, now: int) -> list[str]:
    return [one.run for one in present(roll, now)]


def test_everyone_signs_once() -> None:
    roll = signed(signed(signed("", "a", 0), "b", 1), "a", 2)
    assert runs(roll, 3) == ["b", "a"]


def test_silent_runs_leave_the_roll() -> None:
    roll = signed(signed("", "a", 0), "b", PRESENT_FOR)
    assert runs(roll, PRESENT_FOR + 1) == ["b"]
    assert runs(roll, 3 * PRESENT_FOR) == []


def test_other_texts_are_empty_rolls() -> None:
    assert [present(text, 0) for text in ("", "{}", "\0", '["a",1]')] == [[]] * 4


def test_roll_fits_beside_an_offset() -> None:
    roll = ""
    for number in range(2 * MOST_NAMES):
        roll = signed(roll, f"{number:0100}", number)
    assert len(runs(roll, 2 * MOST_NAMES)) == MOST_NAMES
    assert len(roll) < MAX_METADATA
