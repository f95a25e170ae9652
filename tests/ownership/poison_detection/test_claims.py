"""The suspect in a claim: an owner's successor inherits it, and progress clears it."""

import pytest
from msgspec.structs import replace

from cqrs_cli.ownership.claim import (
    Counts,
    Judgement,
    after_batch,
    judge,
    terminal_claim,
    with_hung_command,
    with_suspects,
)
from cqrs_cli.ownership.poison_detection.suspects import Suspects
from tests.ownership.claims import OWN_CLAIM


def test_lost_owner_leaves_suspects() -> None:
    claim = with_suspects(OWN_CLAIM, None, 5000)
    assert claim.untried and claim.suspects is None
    assert with_suspects(replace(OWN_CLAIM, submission=2), claim, 5000).suspects == Suspects(5000)
    assert with_suspects(replace(OWN_CLAIM, run_epoch=11), claim, 5000).suspects == Suspects(5000)
    assert with_suspects(OWN_CLAIM, replace(OWN_CLAIM, run_epoch=9), 5000).untried is True


@pytest.mark.covers("deadly-command")
@pytest.mark.parametrize("suspects", [None, Suspects(9).announce(7)])
def test_errors_and_retirement_are_no_deaths(suspects: Suspects | None) -> None:
    """Only an owner that died leaves a suspect.

    An owner that this process restarts after an error leaves no suspect, nor does a retired run.
    """
    claim = replace(OWN_CLAIM, untried=True, suspects=suspects)
    expected = suspects and replace(suspects, deciding=False)
    assert with_suspects(replace(OWN_CLAIM, number=9), claim, 5000).suspects == expected
    ended_claim = terminal_claim(claim, OWN_CLAIM.run)
    assert with_suspects(replace(OWN_CLAIM, run_epoch=11), ended_claim, 5000).suspects == expected


def test_progress_clears_suspects() -> None:
    claim = replace(OWN_CLAIM, untried=True, suspects=Suspects(9).announce(7))
    next_claim = after_batch(claim, Counts(accepted=1), 1, 8)
    assert (next_claim.untried, next_claim.suspects, next_claim.counts.accepted) == (False, Suspects(8), 1)
    assert after_batch(next_claim, next_claim.counts, 8, 16).suspects is None
    assert (
        with_suspects(replace(OWN_CLAIM, submission=2), replace(next_claim, suspects=None), 5000).suspects
        is None
    )
    assert after_batch(replace(OWN_CLAIM, untried=True), Counts(), 1, 8) == OWN_CLAIM


def test_progress_before_the_suspect_keeps_it() -> None:
    claim = replace(OWN_CLAIM, suspects=Suspects(9).after_hang(7, 60))
    suspects_before, suspects_after = (after_batch(claim, Counts(), 1, end).suspects for end in (7, 8))
    assert suspects_before == replace(Suspects(9).after_hang(7, 60), count=8) and suspects_after == Suspects(
        8
    )


@pytest.mark.covers("endless-command")
def test_hung_command_is_named_in_the_claim() -> None:
    claim = with_hung_command(replace(OWN_CLAIM, untried=True), 7, 60)
    successor = with_suspects(replace(OWN_CLAIM, submission=2), claim, 5000)
    assert successor.suspects == Suspects().after_hang(7, 60)
    assert judge(OWN_CLAIM, claim) is Judgement.OWN and claim.number == OWN_CLAIM.number + 1
    assert claim.untried is False
