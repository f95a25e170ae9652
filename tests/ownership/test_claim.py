"""Claims decide which owner continues, by run and attempt alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.ownership.claim import (
    MAX_METADATA,
    TERMINAL,
    UNKNOWN_OTHERS,
    UNKNOWN_TOPIC,
    Accepted,
    Claim,
    Counts,
    Judgement,
    believable,
    judge,
    may_warm,
    next_run_epoch,
    parse_claim,
    succeed,
    terminal,
)
from cqrs_cli.ownership.trials.suspects import Trial
from tests.ownership.claims import MINE, claims, small

LOSS = Accepted(5, (0, 7), 9)


def test_missing_claim_is_behind() -> None:
    assert judge(MINE, None) is Judgement.BEHIND
    assert judge(MINE, parse_claim("somebody's text")) is Judgement.BEHIND


def test_later_run_has_taken_over() -> None:
    assert judge(MINE, replace(MINE, run_epoch=11, submission=0, attempt=0)) is Judgement.TAKEN_OVER
    assert judge(MINE, replace(MINE, run="n", n=1)) is Judgement.TAKEN_OVER


def test_older_run_is_always_behind() -> None:
    assert judge(MINE, replace(MINE, run_epoch=9, attempt=TERMINAL, n=99)) is Judgement.BEHIND


def test_later_attempt_makes_a_straggler() -> None:
    assert judge(MINE, replace(MINE, attempt=2)) is Judgement.STRAGGLER
    assert judge(MINE, replace(MINE, submission=2, attempt=0)) is Judgement.STRAGGLER
    assert judge(MINE, replace(MINE, submission=TERMINAL, attempt=TERMINAL)) is Judgement.STRAGGLER


def test_earlier_attempt_is_behind() -> None:
    assert judge(MINE, replace(MINE, attempt=0, n=99)) is Judgement.BEHIND
    assert judge(MINE, replace(MINE, submission=0, attempt=5)) is Judgement.BEHIND


@given(st.integers(0, 99), st.integers(0, 99))
def test_own_claim_is_mine(n: int, other: int) -> None:
    assert judge(replace(MINE, n=n), replace(MINE, n=other)) is Judgement.MINE


@pytest.mark.covers("one-owner")
@given(claims, claims)
def test_exactly_one_attempt_goes_on(one: Claim, other: Claim) -> None:
    first, second = judge(one, other), judge(other, one)
    if Judgement.MINE in (first, second):
        assert first is second
    else:
        assert first.ends != second.ends


@given(claims, claims, claims)
def test_claim_order_has_no_circle(a: Claim, b: Claim, c: Claim) -> None:
    if judge(a, b).ends and judge(b, c).ends:
        assert judge(a, c).ends


@example(7, [replace(MINE, run_epoch=50), None])
@given(st.integers(0, 2**41), st.lists(st.none() | claims))
def test_run_epoch_exceeds_claims_and_clock(clock: int, seen: list[Claim | None]) -> None:
    run_epoch = next_run_epoch(clock, seen)
    assert run_epoch == clock or run_epoch - 1 in [claim.run_epoch for claim in seen if claim is not None]
    assert all(judge(replace(c, run_epoch=run_epoch), c) is Judgement.BEHIND for c in seen if c)


@given(st.none() | claims, st.sampled_from(["", "3.10.m", "12.9.a.b", "torn"]))
def test_succeeding_claim_rises_above_all(committed_claim: Claim | None, token: str) -> None:
    following = succeed(MINE, committed_claim, token)
    assert judge(MINE, following) is Judgement.MINE
    assert following.n > max(MINE.n, committed_claim.n if committed_claim else 0)
    assert succeed(MINE, committed_claim, following.token).n > following.n


@given(claims, claims)
def test_no_two_attempts_have_one_token(one: Claim, other: Claim) -> None:
    same = judge(one, other) is Judgement.MINE and one.n == other.n
    assert (one.token == other.token) is same


def test_claim_keeps_the_log_facts() -> None:
    given = replace(
        MINE,
        run_epoch=9,
        topic_id="before",
        partitions=3,
        accepted=LOSS,
        other_ids=("events", "outcomes"),
        deferred_id="deferred",
    )
    following = succeed(MINE, given, "")
    assert following.deferred_id == "deferred"
    assert (following.topic_id, following.partitions, following.accepted) == ("before", 3, LOSS)
    assert (following.other_ids, following.n) == (("events", "outcomes"), 8)


def test_claim_over_foreign_offset_knows_nothing() -> None:
    mine = replace(MINE, n=0, accepted=LOSS, other_ids=("events", "outcomes"), deferred_id="deferred")
    following = succeed(mine, None, "")
    assert following.deferred_id == UNKNOWN_TOPIC
    assert (following.topic_id, following.partitions, following.accepted) == (UNKNOWN_TOPIC, 4, None)
    assert (following.other_ids, following.n) == (UNKNOWN_OTHERS, 1)


def test_own_claim_confirms_contradiction() -> None:
    assert believable(MINE, True, replace(MINE, n=99))


def test_contradiction_without_claims_is_believed() -> None:
    assert believable(MINE, False, None)


@pytest.mark.parametrize("committed_claim", [None, replace(MINE, attempt=2), replace(MINE, run_epoch=9)])
def test_foreign_claim_discredits_contradiction(
    committed_claim: Claim | None,
) -> None:
    assert not believable(MINE, True, committed_claim)


@pytest.mark.parametrize("committed_claim", [replace(MINE, attempt=2), replace(MINE, run_epoch=11)])
def test_first_claim_by_another_discredits_contradiction(
    committed_claim: Claim,
) -> None:
    assert not believable(MINE, False, committed_claim)


@given(st.none() | claims)
def test_only_unowned_shards_are_warmed(before: Claim | None) -> None:
    owner = succeed(MINE, before, "")
    later = succeed(replace(MINE, run_epoch=11), owner, "")
    assert may_warm("", before)
    assert may_warm(owner.token, later)


@given(st.none() | claims)
def test_unseen_claim_keeps_shard_cold(before: Claim | None) -> None:
    owner = succeed(MINE, before, "")
    assert not may_warm(owner.token, owner)
    assert not may_warm(owner.token, before)


def test_terminal_claim_makes_attempts_stragglers() -> None:
    last = terminal(MINE, MINE.run)
    assert last is not None
    assert (last.submission, last.attempt, last.n) == (TERMINAL, TERMINAL, MINE.n + 1)
    assert judge(replace(MINE, submission=99, attempt=99), last) is Judgement.STRAGGLER
    assert judge(replace(MINE, run_epoch=11), last) is Judgement.BEHIND


@pytest.mark.parametrize(
    "committed_claim",
    [None, replace(MINE, run="n"), replace(MINE, attempt=TERMINAL)],
)
def test_ended_runs_are_not_ended_again(committed_claim: Claim | None) -> None:
    assert terminal(committed_claim, MINE.run) is None


ends = st.integers(0, 2**53)
counts = st.builds(Counts, *[st.integers(0, 2**53)] * 9)


trials = st.builds(Trial, ends, ends, small, st.booleans(), ends)


@given(claims, counts, st.none() | st.builds(Accepted, ends, st.tuples(ends, ends), ends), st.none() | trials)
def test_a_claim_survives_its_offset_commit(
    claim: Claim, counted: Counts, loss: Accepted | None, trial: Trial | None
) -> None:
    whole = replace(claim, counts=counted, accepted=loss, trial=trial, untried=trial is None)
    assert parse_claim(whole.metadata()) == whole


def test_largest_claim_fits_offset_commit() -> None:
    most = 2**63
    loss, counted, ids = Accepted(most, (most, most), most), Counts(*[most] * 9), ("A" * 22, "A" * 22)
    largest = Claim(most, "f" * 12, TERMINAL, TERMINAL, most, "A" * 22, most, counted, loss, ids, "A" * 22)
    largest = replace(largest, untried=True, trial=Trial(most, most, most, True, most))
    assert len(largest.metadata()) <= MAX_METADATA


def test_other_text_is_no_claim() -> None:
    for text in (None, "", "{}", "[]", "null", '{"generation":"1"}', "\ufffd", "{" * 5000):
        assert parse_claim(text) is None


def test_claim_with_unknown_members_is_read() -> None:
    assert parse_claim(MINE.metadata()[:-1] + ',"colour":"blue"}') == MINE


def test_counts_add_up_with_times() -> None:
    once = Counts().add({"accepted": 2, "events": 3}, 100, 110)
    twice = once.add({"accepted": 1, "failed": 1, "events": 1}, 120, 130)
    assert twice == Counts(accepted=3, failed=1, events=4, first=100, last=130)
    assert twice.commands == 4
