"""Runs in standby mode: some run always decides, and the runs do not fight."""

import pytest

from cqrs_cli.ownership.standby import can_take_over
from tests.model.standby import Place, Rules, beginning, explored

MOST = 20_000


def at_work(place: Place) -> list[str]:
    return [one.mine.run for one in place.runs if one.step == "works" and one.mine == place.claim]


def is_served(place: Place) -> bool:
    """True if exactly one run works, or if all runs have crashed."""
    return len(at_work(place)) == 1 or all(one.step == "gone" for one in place.runs)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_run_works_in_the_end(count: int) -> None:
    """Any run may crash or be suspected, in any state of the others."""
    found = explored(Rules(), beginning(count), MOST)
    assert found.places < MOST and found.restless == []
    assert all(map(is_served, found.rests))


BREAKS = {
    "a run that is taken over claims again": Rules(taken_over_stands_by=False),
    "a living run is not waited for": Rules(can_take_over=lambda *_: True),
}


@pytest.mark.parametrize("rules", BREAKS.values(), ids=BREAKS)
def test_broken_rules_fight_for_ever(rules: Rules) -> None:
    assert explored(rules, beginning(2), MOST).places >= MOST


def test_claim_that_does_not_rise_serves_nobody() -> None:
    """A run that was taken over could not take over again."""
    assert explored(Rules(next_claim=lambda mine, *_: mine), beginning(2), MOST).restless


def test_silence_lets_others_begin() -> None:
    """A run that never suspects others waits forever after a crash."""
    deaf = Rules(can_take_over=lambda mine, claim, silent, after: can_take_over(mine, claim, 0.0, after))
    assert not all(map(is_served, explored(deaf, beginning(2), MOST).rests))
