"""Claims decide which owner continues, by run and attempt alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.ownership.claim import (
    MAX_METADATA,
    TERMINAL,
    UNKNOWN_TOPIC,
    UNKNOWN_TOPICS,
    AcceptedLoss,
    Claim,
    Counts,
    Judgement,
    first_valid_offset,
    is_inconsistency_real,
    is_shard_idle,
    judge,
    next_run_epoch,
    parse_claim,
    successor_claim,
    terminal_claim,
)
from cqrs_cli.ownership.poison_detection.suspects import Suspects
from tests.ownership.claims import OWN_CLAIM, claims, small_numbers

ACCEPTED_LOSS = AcceptedLoss(5, (0, 7), 9)


def test_missing_claim_counts_as_earlier() -> None:
    assert judge(OWN_CLAIM, None) is Judgement.EARLIER
    assert judge(OWN_CLAIM, parse_claim("somebody's text")) is Judgement.EARLIER


def test_later_run_has_taken_over() -> None:
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, run_epoch=11, submission=0, attempt=0)) is Judgement.LATER_RUN
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, run="n", number=1)) is Judgement.LATER_RUN


def test_older_run_counts_as_earlier() -> None:
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, run_epoch=9, attempt=TERMINAL, number=99)) is Judgement.EARLIER


def test_later_attempt_makes_a_straggler() -> None:
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, attempt=2)) is Judgement.LATER_ATTEMPT
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, submission=2, attempt=0)) is Judgement.LATER_ATTEMPT
    assert (
        judge(OWN_CLAIM, replace(OWN_CLAIM, submission=TERMINAL, attempt=TERMINAL)) is Judgement.LATER_ATTEMPT
    )


def test_earlier_attempt_counts_as_earlier() -> None:
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, attempt=0, number=99)) is Judgement.EARLIER
    assert judge(OWN_CLAIM, replace(OWN_CLAIM, submission=0, attempt=5)) is Judgement.EARLIER


@given(st.integers(0, 99), st.integers(0, 99))
def test_own_claim_is_recognized(n: int, other: int) -> None:
    assert judge(replace(OWN_CLAIM, number=n), replace(OWN_CLAIM, number=other)) is Judgement.OWN


@pytest.mark.covers("one-owner")
@given(claims, claims)
def test_exactly_one_attempt_continues(claim: Claim, other: Claim) -> None:
    first, second = judge(claim, other), judge(other, claim)
    if Judgement.OWN in (first, second):
        assert first is second
    else:
        assert first.must_return != second.must_return


@given(claims, claims, claims)
def test_claim_order_has_no_circle(a: Claim, b: Claim, c: Claim) -> None:
    if judge(a, b).must_return and judge(b, c).must_return:
        assert judge(a, c).must_return


@example(7, [replace(OWN_CLAIM, run_epoch=50), None])
@given(st.integers(0, 2**41), st.lists(st.none() | claims))
def test_run_epoch_exceeds_claims_and_clock(clock: int, known_claims: list[Claim | None]) -> None:
    run_epoch = next_run_epoch(clock, known_claims)
    assert run_epoch == clock or run_epoch - 1 in [
        claim.run_epoch for claim in known_claims if claim is not None
    ]
    assert all(judge(replace(c, run_epoch=run_epoch), c) is Judgement.EARLIER for c in known_claims if c)


@given(st.none() | claims, st.sampled_from(["", "3.10.m", "12.9.a.b", "torn"]))
def test_successor_claim_exceeds_earlier_claims(committed_claim: Claim | None, token: str) -> None:
    successor = successor_claim(OWN_CLAIM, committed_claim, token)
    assert judge(OWN_CLAIM, successor) is Judgement.OWN
    assert successor.number > max(OWN_CLAIM.number, committed_claim.number if committed_claim else 0)
    assert successor_claim(OWN_CLAIM, committed_claim, successor.token).number > successor.number


@given(claims, claims)
def test_two_attempts_have_different_tokens(claim: Claim, other: Claim) -> None:
    same = judge(claim, other) is Judgement.OWN and claim.number == other.number
    assert (claim.token == other.token) is same


def test_claim_keeps_the_log_facts() -> None:
    committed = replace(
        OWN_CLAIM,
        run_epoch=9,
        topic_id="before",
        partitions=3,
        accepted=ACCEPTED_LOSS,
        other_ids=("events", "outcomes"),
        deferred_id="deferred",
    )
    successor = successor_claim(OWN_CLAIM, committed, "")
    assert successor.deferred_id == "deferred"
    assert (successor.topic_id, successor.partitions, successor.accepted) == ("before", 3, ACCEPTED_LOSS)
    assert (successor.other_ids, successor.number) == (("events", "outcomes"), 8)


def test_foreign_offset_gives_no_log_facts() -> None:
    own_claim = replace(
        OWN_CLAIM, number=0, accepted=ACCEPTED_LOSS, other_ids=("events", "outcomes"), deferred_id="deferred"
    )
    successor = successor_claim(own_claim, None, "")
    assert successor.deferred_id == UNKNOWN_TOPIC
    assert (successor.topic_id, successor.partitions, successor.accepted) == (UNKNOWN_TOPIC, 4, None)
    assert (successor.other_ids, successor.number) == (UNKNOWN_TOPICS, 1)


def test_own_claim_confirms_contradiction() -> None:
    assert is_inconsistency_real(OWN_CLAIM, True, replace(OWN_CLAIM, number=99))


def test_contradiction_without_claims_is_believed() -> None:
    assert is_inconsistency_real(OWN_CLAIM, False, None)


@pytest.mark.parametrize(
    "committed_claim", [None, replace(OWN_CLAIM, attempt=2), replace(OWN_CLAIM, run_epoch=9)]
)
def test_foreign_claim_discredits_contradiction(
    committed_claim: Claim | None,
) -> None:
    assert not is_inconsistency_real(OWN_CLAIM, True, committed_claim)


@pytest.mark.parametrize("committed_claim", [replace(OWN_CLAIM, attempt=2), replace(OWN_CLAIM, run_epoch=11)])
def test_first_claim_by_another_discredits_contradiction(
    committed_claim: Claim,
) -> None:
    assert not is_inconsistency_real(OWN_CLAIM, False, committed_claim)


@given(st.none() | claims)
def test_only_unowned_shards_are_folded(committed_claim: Claim | None) -> None:
    owner = successor_claim(OWN_CLAIM, committed_claim, "")
    later_claim = successor_claim(replace(OWN_CLAIM, run_epoch=11), owner, "")
    assert is_shard_idle("", committed_claim)
    assert is_shard_idle(owner.token, later_claim)


@given(st.none() | claims)
def test_owned_shard_is_not_folded(committed_claim: Claim | None) -> None:
    owner = successor_claim(OWN_CLAIM, committed_claim, "")
    assert not is_shard_idle(owner.token, owner)
    assert not is_shard_idle(owner.token, committed_claim)


def test_terminal_claim_makes_attempts_stragglers() -> None:
    terminal = terminal_claim(OWN_CLAIM, OWN_CLAIM.run)
    assert terminal is not None
    assert (terminal.submission, terminal.attempt, terminal.number) == (
        TERMINAL,
        TERMINAL,
        OWN_CLAIM.number + 1,
    )
    assert judge(replace(OWN_CLAIM, submission=99, attempt=99), terminal) is Judgement.LATER_ATTEMPT
    assert judge(replace(OWN_CLAIM, run_epoch=11), terminal) is Judgement.EARLIER


@pytest.mark.parametrize(
    "committed_claim",
    [None, replace(OWN_CLAIM, run="n"), replace(OWN_CLAIM, attempt=TERMINAL)],
)
def test_ended_run_gets_no_terminal_claim(committed_claim: Claim | None) -> None:
    assert terminal_claim(committed_claim, OWN_CLAIM.run) is None


ends = st.integers(0, 2**53)
counts = st.builds(Counts, *[st.integers(0, 2**53)] * 9)


suspects = st.builds(Suspects, ends, ends, small_numbers, st.booleans(), ends)


@given(
    claims,
    counts,
    st.none() | st.builds(AcceptedLoss, ends, st.tuples(ends, ends), ends),
    st.none() | suspects,
)
def test_a_claim_survives_its_offset_commit(
    claim: Claim, _counts: Counts, loss: AcceptedLoss | None, suspects: Suspects | None
) -> None:
    full_claim = replace(claim, counts=_counts, accepted=loss, suspects=suspects, untried=suspects is None)
    assert parse_claim(full_claim.metadata()) == full_claim


def test_largest_claim_fits_offset_commit() -> None:
    largest_number = 2**63
    loss, largest_counts, ids = (
        AcceptedLoss(largest_number, (largest_number, largest_number), largest_number),
        Counts(*[largest_number] * 11),
        ("A" * 22, "A" * 22),
    )
    largest = Claim(
        largest_number,
        "f" * 12,
        TERMINAL,
        TERMINAL,
        largest_number,
        "A" * 22,
        largest_number,
        largest_counts,
        loss,
        ids,
        "A" * 22,
    )
    largest = replace(
        largest,
        untried=True,
        suspects=Suspects(largest_number, largest_number, largest_number, True, largest_number),
    )
    assert len(largest.metadata()) <= MAX_METADATA


def test_records_before_accepted_loss_do_not_count() -> None:
    assert first_valid_offset(ACCEPTED_LOSS, "events") == 7
    assert first_valid_offset(ACCEPTED_LOSS, "outcomes") == 9
    assert first_valid_offset(None, "events") == 0


def test_other_text_is_no_claim() -> None:
    for text in (None, "", "{}", "[]", "null", '{"generation":"1"}', "\ufffd", "{" * 5000):
        assert parse_claim(text) is None


def test_claim_with_unknown_members_is_read() -> None:
    assert parse_claim(OWN_CLAIM.metadata()[:-1] + ',"colour":"blue"}') == OWN_CLAIM


def test_counts_add_up_with_times() -> None:
    once = Counts().add_batch({"accepted": 2, "events": 3}, 100, 110)
    twice = once.add_batch({"accepted": 1, "failed": 1, "events": 1}, 120, 130)
    assert twice == Counts(accepted=3, failed=1, events=4, first=100, last=130, transactions=2)
    assert twice.commands == 4
