"""Laws of an owner's start position, for any log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.deciding.position import LogState, position
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, UNKNOWN_TOPICS, Accepted
from tests.deciding.log_states import claim

LOST = claim(accepted=Accepted(4, (0, 3), 3))

offsets = st.integers(0, 7)
logs = st.builds(
    LogState,
    aggregate=st.just("bank"),
    topic=st.just("t.bank.commands"),
    partition=st.just(0),
    topic_id=st.sampled_from(["id", "other"]),
    other_ids=st.sampled_from([("e", "o"), ("other", "o"), ("e", "other")]),
    partitions=st.just(4),
    start=offsets,
    end=offsets,
    last_outcome=st.none() | offsets,
    last_outcome_matches=st.booleans(),
    outcomes_start=st.sampled_from([0, 5]),
    has_events=st.booleans(),
    last_event=st.none() | offsets,
    committed=st.none() | offsets,
    claim=st.sampled_from([None, claim(), claim(topic_id=UNKNOWN_TOPIC, other_ids=UNKNOWN_TOPICS), LOST]),
).filter(lambda given: given.start <= given.end)


@pytest.mark.covers("one-outcome")
@given(logs)
def test_position_neither_repeats_nor_skips(given: LogState) -> None:
    try:
        at = position(given)
    except CqrsError as error:
        assert error.exit_code == 5
        return
    begin = 4 if given.claim == LOST and given.outcomes_start <= 3 else 0
    decided = begin if given.last_outcome is None else given.last_outcome + 1
    assert given.start <= at <= given.end
    assert at >= decided
    assert at == decided or (given.claim in (claim(), LOST) and at <= (given.committed or 0))


@pytest.mark.covers("one-outcome")
@given(logs, offsets)
def test_accepted_place_never_repeats_decisions(given: LogState, word: int) -> None:
    try:
        at = position(given, accept_loss=word)
    except CqrsError as error:
        assert error.exit_code in (2, 5)
        return
    same = given.topic_id == "id" or given.claim is None or given.claim.topic_id == UNKNOWN_TOPIC
    if (
        given.last_outcome_matches
        and same
        and given.last_outcome is not None
        and given.last_outcome < given.end
    ):
        assert at > given.last_outcome


@given(logs)
def test_offered_place_is_in_the_log(given: LogState) -> None:
    try:
        position(given)
    except ContradictionError as error:
        onward = int(error.hint.rpartition("@")[2])
        assert position(given, accept_loss=onward) == onward
