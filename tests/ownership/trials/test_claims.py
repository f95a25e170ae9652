"""The suspect in a claim: an owner's successor inherits it, and progress clears it."""

import pytest
from msgspec.structs import replace

from cqrs_cli.ownership.claim import Counts, Judgement, condemned, judge, progressed, suspect, terminal
from cqrs_cli.ownership.trials.suspects import Trial
from tests.ownership.claims import MINE


def test_lost_predecessor_leaves_suspects() -> None:
    lost = suspect(MINE, None, 5000)
    assert lost.untried and lost.trial is None
    assert suspect(replace(MINE, submission=2), lost, 5000).trial == Trial(5000)
    assert suspect(replace(MINE, run_epoch=11), lost, 5000).trial == Trial(5000)
    assert suspect(MINE, replace(MINE, run_epoch=9), 5000).untried is True


@pytest.mark.covers("deadly-command")
@pytest.mark.parametrize("trial", [None, Trial(9).announce(7)])
def test_own_error_and_end_are_no_deaths(trial: Trial | None) -> None:
    """Only an owner that died leaves a suspect: not an owner of this process, and not a retired run."""
    before = replace(MINE, untried=True, trial=trial)
    left = trial and replace(trial, deciding=False)
    assert suspect(replace(MINE, n=9), before, 5000).trial == left
    ended = terminal(before, MINE.run)
    assert suspect(replace(MINE, run_epoch=11), ended, 5000).trial == left


def test_progress_clears_the_suspicion() -> None:
    before = replace(MINE, untried=True, trial=Trial(9).announce(7))
    after = progressed(before, Counts(accepted=1), 1, 8)
    assert (after.untried, after.trial, after.counts.accepted) == (False, Trial(8), 1)
    assert progressed(after, after.counts, 8, 16).trial is None
    assert suspect(replace(MINE, submission=2), replace(after, trial=None), 5000).trial is None
    assert progressed(replace(MINE, untried=True), Counts(), 1, 8) == MINE


def test_progress_before_the_suspect_keeps_it() -> None:
    before = replace(MINE, trial=Trial(9).endless(7, 60))
    kept, passed = (progressed(before, Counts(), 1, end).trial for end in (7, 8))
    assert kept == replace(Trial(9).endless(7, 60), suspects=8) and passed == Trial(8)


@pytest.mark.covers("endless-command")
def test_condemned_command_rides_in_the_claim() -> None:
    left = condemned(replace(MINE, untried=True), 7, 60)
    following = suspect(replace(MINE, submission=2), left, 5000)
    assert following.trial == Trial().endless(7, 60)
    assert judge(MINE, left) is Judgement.MINE and left.n == MINE.n + 1
    assert left.untried is False
