"""Laws of an owner's start position, for any log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.deciding.position import LogState, position
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, UNKNOWN_TOPICS, AcceptedLoss
from tests.deciding.log_states import claim

CLAIM_WITH_LOSS = claim(accepted=AcceptedLoss(4, (0, 3), 3))

offsets = st.integers(0, 7)
log_states = st.builds(
    LogState,
    aggregate=st.just("bank"),
    topic=st.just("t.bank.commands"),
    partition=st.just(0),
    topic_id=st.sampled_from(["id", "other"]),
    other_ids=st.sampled_from([("e", "o"), ("other", "o"), ("e", "other")]),
    partitions=st.just(4),
    start=offsets,
    end=offsets,
    last_outcome_command=st.none() | offsets,
    last_outcome_matches=st.booleans(),
    outcomes_start=st.sampled_from([0, 5]),
    has_events=st.booleans(),
    last_event_command=st.none() | offsets,
    committed=st.none() | offsets,
    claim=st.sampled_from(
        [None, claim(), claim(topic_id=UNKNOWN_TOPIC, other_ids=UNKNOWN_TOPICS), CLAIM_WITH_LOSS]
    ),
).filter(lambda state: state.start <= state.end)


@pytest.mark.covers("one-outcome")
@given(log_states)
def test_position_neither_repeats_nor_skips(state: LogState) -> None:
    try:
        offset = position(state)
    except CqrsError as error:
        assert error.exit_code == 5
        return
    first_undecided = 4 if state.claim == CLAIM_WITH_LOSS and state.outcomes_start <= 3 else 0
    next_undecided = first_undecided if state.last_outcome_command is None else state.last_outcome_command + 1
    assert state.start <= offset <= state.end
    assert offset >= next_undecided
    # an owner skips further only by a trusted claim, and never beyond the committed offset or the last event
    event_end = 0 if state.last_event_command is None else state.last_event_command + 1
    assert offset == next_undecided or (
        state.claim in (claim(), CLAIM_WITH_LOSS) and offset <= max(state.committed or 0, event_end)
    )


@pytest.mark.covers("one-outcome")
@given(log_states, offsets)
def test_accepted_offset_never_repeats_decisions(state: LogState, accept_loss: int) -> None:
    try:
        offset = position(state, accept_loss=accept_loss)
    except CqrsError as error:
        assert error.exit_code in (2, 5)
        return
    same_topic = state.topic_id == "id" or state.claim is None or state.claim.topic_id == UNKNOWN_TOPIC
    if (
        state.last_outcome_matches
        and same_topic
        and state.last_outcome_command is not None
        and state.last_outcome_command < state.end
    ):
        assert offset > state.last_outcome_command


@given(log_states)
def test_suggested_offset_is_in_the_log(state: LogState) -> None:
    try:
        position(state)
    except ContradictionError as error:
        next_offset = int(error.hint.rpartition("@")[2])
        assert position(state, accept_loss=next_offset) == next_offset
