"""Runs in standby mode: some run always decides, and the runs do not take over from each other forever."""

import pytest

from cqrs_cli.ownership.standby import can_take_over
from tests.model.standby import Moment, Rules, explore_moments, first_moment

MAX_MOMENTS = 20_000


def active_runs(moment: Moment) -> list[str]:
    return [
        run.own_claim.run for run in moment.runs if run.step == "active" and run.own_claim == moment.claim
    ]


def is_served(moment: Moment) -> bool:
    """True if exactly one run is active, or if all runs have crashed."""
    return len(active_runs(moment)) == 1 or all(run.step == "gone" for run in moment.runs)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_run_is_active_in_the_end(count: int) -> None:
    """Any run may crash or be wrongly taken for dead, in any state of the other runs."""
    result = explore_moments(Rules(), first_moment(count), MAX_MOMENTS)
    assert result.moment_count < MAX_MOMENTS and result.unstable_moments == []
    assert all(map(is_served, result.final_moments))


BROKEN_RULES = {
    "a run that was taken over claims again": Rules(returns_to_standby=False),
    "a standby does not wait for the active run": Rules(can_take_over=lambda *_: True),
}


@pytest.mark.parametrize("rules", BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_broken_rules_never_settle(rules: Rules) -> None:
    assert explore_moments(rules, first_moment(2), MAX_MOMENTS).moment_count >= MAX_MOMENTS


def test_unchanged_claim_leaves_no_active_run() -> None:
    """With its old epoch, a run that was taken over could not take over again."""
    assert explore_moments(
        Rules(next_claim=lambda own_claim, *_: own_claim), first_moment(2), MAX_MOMENTS
    ).unstable_moments


def test_silence_allows_a_takeover() -> None:
    """A standby without a timeout waits forever after a crash."""
    no_timeouts = Rules(
        can_take_over=lambda own_claim, claim, silent, after: can_take_over(own_claim, claim, 0.0, after)
    )
    assert not all(map(is_served, explore_moments(no_timeouts, first_moment(2), MAX_MOMENTS).final_moments))
