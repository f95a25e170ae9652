"""Every possible state of a partition's logs when an owner starts."""

import pytest

from cqrs_cli.deciding.position import LogState, gap, position
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, AcceptedLoss, Claim
from tests.deciding.log_states import claim, log


def test_position_follows_last_outcome() -> None:
    assert position(log()) == 10


def test_position_may_be_the_end() -> None:
    """All commands are decided and committed, which is the usual case."""
    assert position(log(last=19, committed=20)) == 20
    assert position(log(last=19, committed=20, start=20)) == 20


def test_new_partition_begins_at_zero() -> None:
    assert position(log(last=None, committed=None, claim=None)) == 0


def test_an_expired_offset_does_not_matter() -> None:
    assert position(log(committed=None, claim=None)) == 10


def test_foreign_commit_of_right_offset_passes() -> None:
    assert position(log(claim=None)) == 10


def test_gap_reaches_to_committed_offset() -> None:
    state = log(committed=15)
    assert position(state) == 10
    assert gap(state, 10) == (10, 15)


def test_no_gap_without_committed_offset() -> None:
    assert gap(log(committed=None), 10) == (10, 10)
    assert gap(log(), 10) == (10, 10)


def test_deleted_control_records_are_no_loss() -> None:
    assert position(log(committed=15, start=13)) == 13


@pytest.mark.parametrize("foreign_claim", [None, claim(topic_id=UNKNOWN_TOPIC)])
def test_foreign_commit_proves_no_completeness(
    foreign_claim: Claim | None,
) -> None:
    with pytest.raises(ContradictionError, match="commands 10 to 12 were deleted"):
        position(log(committed=15, start=13, claim=foreign_claim))


@pytest.mark.parametrize(
    ("count", "hint"), [(3, "fewer partitions would spread"), (8, "--partitions 8"), (9, "--partitions 12")]
)
def test_another_number_of_partitions_is_refused(count: int, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        position(log(partitions=count))
    assert raised.value.exit_code == 3
    assert hint in raised.value.hint
    assert f"had 4 partitions and now has {count}" in raised.value.message


@pytest.mark.parametrize(("claimed", "partition_count"), [(4, 4), (4, 8)])
def test_split_partition_continues(claimed: int, partition_count: int) -> None:
    """The claim may be from before the split. The partition history has the partition count."""
    assert (
        position(log(was_repartitioned=True, claim=claim(partitions=claimed), partitions=partition_count))
        == 10
    )


def test_shorter_lineage_than_claim_is_refused() -> None:
    """The broker may lag: the count in the claim was committed together with the split."""
    with pytest.raises(ContradictionError, match="has split to 8 partitions, its partition history has 4"):
        position(log(was_repartitioned=True, claim=claim(partitions=8)))


@pytest.mark.parametrize(
    ("state", "message", "next_offset"),
    [
        (log(topic_id="other", start=2), "deleted and created again", 2),
        (log(other_ids=("other", "o")), "the topic of its events was deleted and created again", 10),
        (log(other_ids=("other", "o"), committed=15), "its events was deleted and created again", 15),
        (log(last=None, other_ids=("e", "other")), "the topic of its outcomes was deleted and created", 10),
        (log(last=None, committed=None, has_events=True), "events but no outcome", 0),
        (log(last=None, has_events=True, outcomes_start=7, claim=None), "events but no outcome", 0),
        (
            log(last=None, committed=None, last_event_command=6, has_events=True, last_event_matches=True),
            "no outcome",
            7,
        ),
        (
            log(last_outcome_matches=False, end=3, committed=None, claim=None),
            "9 is decided but the log ends at 3",
            3,
        ),
        (
            log(last_outcome_matches=False, end=3, committed=None, claim=None, is_new=True),
            "decided but the log ends at 3",
            0,
        ),
        (
            log(other_ids=("new", "o"), claim=claim(accepted=AcceptedLoss(10, (0, 9), 9))),
            "its events was",
            10,
        ),
        (
            log(committed=7, claim=claim(accepted=AcceptedLoss(7, (0, 9), 9))),
            "7 is committed but 9 is decided",
            10,
        ),
        (log(last_event_command=10), "command 10 has events but no outcome", 11),
        (log(last=None, committed=None, last_event_command=3), "command 3 has events but no outcome", 4),
        (log(committed=5), "offset 5 is committed but 9 is decided", 10),
        (log(committed=10, end=8), "offset 9 is decided but the log ends at 8", 8),
        (log(committed=25), "offset 25 is committed but the log ends at 20", 10),
        (log(last=None, committed=0, other_ids=("other", "o")), "the topic of its events was deleted", 0),
        (log(start=12), "commands 10 to 11 were deleted", 12),
        (log(start=12, committed=None), "commands 10 to 11 were deleted", 12),
        (log(last=None, committed=None, start=4), "commands 0 to 3 were deleted", 4),
    ],
)
def test_contradiction_names_the_accept_loss_option(state: LogState, message: str, next_offset: int) -> None:
    with pytest.raises(ContradictionError, match=message) as raised:
        position(state)
    assert raised.value.exit_code == 5
    assert "t.bank.commands partition 3: " in raised.value.message
    assert raised.value.hint.endswith(f": cqrs run --accept-loss bank:3@{next_offset}")


def test_accepted_offset_overrides_contradictions() -> None:
    assert position(log(start=12), accept_loss=12) == 12
    assert position(log(topic_id="other"), accept_loss=0) == 0
    with pytest.raises(ConfigurationError):
        position(log(partitions=5), accept_loss=12)


def test_expired_outcomes_defer_to_committed_offset() -> None:
    state = log(last=None, has_events=True, last_event_command=9, outcomes_start=12)
    assert position(state) == 10
    assert position(state._replace(start=10)) == 10
    assert position(state._replace(outcomes_start=1)) == 10
    with pytest.raises(
        ContradictionError,
        match=": there are events but no outcome, so it is unknown which commands were decided;",
    ):
        position(state._replace(outcomes_start=0))
    assert gap(state, 10) == (10, 10)


def test_earlier_accepted_offset_is_ignored() -> None:
    assert position(log(), accept_loss=3) == 10
    assert position(log(committed=None, claim=None), accept_loss=3) == 10
    with pytest.raises(ContradictionError, match="offset 25 is committed"):
        position(log(committed=25), accept_loss=9)
    assert position(log(last_outcome_matches=False, topic_id="other"), accept_loss=3) == 3
    assert position(log(last_outcome_matches=False, claim=None), accept_loss=3) == 3


def test_accepted_offset_needs_its_outcomes() -> None:
    """Retention has deleted the records of the time of acceptance, perhaps more, so the committed offset counts."""
    state = log(last=None, committed=15, start=12, claim=claim(accepted=AcceptedLoss(12, (0, 9), 9)))
    assert position(state._replace(outcomes_start=9)) == 12
    assert gap(state, 12) == (12, 15)
    assert position(state._replace(outcomes_start=10)) == 15


def test_accepted_offset_counts_until_decided() -> None:
    accepted = claim(accepted=AcceptedLoss(12, (0, 0), 0))
    assert position(log(start=12, committed=12, claim=accepted)) == 12
    assert position(log(start=12, committed=12, claim=accepted), accept_loss=12) == 12


def test_accepted_offset_covers_a_second_loss() -> None:
    state = log(
        other_ids=("new", "o"),
        last_outcome_matches=False,
        committed=12,
        claim=claim(accepted=AcceptedLoss(12, (0, 9), 9)),
    )
    assert position(state, accept_loss=12) == 12


def test_events_limit_the_accepted_offset() -> None:
    state = log(
        last=None, committed=None, claim=None, has_events=True, last_event_command=6, last_event_matches=True
    )
    with pytest.raises(ContradictionError, match="no outcome"):
        position(state, accept_loss=6)
    assert position(state, accept_loss=7) == 7


def test_used_offset_changes_nothing() -> None:
    state = log(last=14, committed=15, start=12, claim=claim(accepted=AcceptedLoss(12, (0, 0), 0)))
    assert position(state, accept_loss=12) == position(state) == 15


def test_accepted_offset_counts_again_after_truncation() -> None:
    state = log(last=None, end=12, committed=15, claim=claim(accepted=AcceptedLoss(12, (0, 0), 0)))
    with pytest.raises(ContradictionError, match="ends at 12") as raised:
        position(state)
    assert raised.value.hint.endswith("bank:3@12")
    assert position(state, accept_loss=12) == 12


def test_used_offset_is_not_suggested_again() -> None:
    state = log(
        last=9, last_event_command=11, committed=15, claim=claim(accepted=AcceptedLoss(12, (0, 0), 0))
    )
    with pytest.raises(ContradictionError, match="command 11 has events but no outcome") as raised:
        position(state, accept_loss=12)
    assert raised.value.hint.endswith("bank:3@15")
    assert position(state, accept_loss=15) == 15


@pytest.mark.parametrize("offset", [11, 21])
def test_offset_outside_log_is_refused(offset: int) -> None:
    with pytest.raises(CqrsError, match="12 to 20") as raised:
        position(log(start=12), accept_loss=offset)
    assert raised.value.message == f"t.bank.commands partition 3 has no offset {offset}"
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("accepted_offset", [0, 12, 19])
def test_offset_is_ignored_after_all_decisions(accepted_offset: int) -> None:
    assert position(log(last=19, committed=20), accept_loss=accepted_offset) == 20
    assert position(log(last=None, committed=20, outcomes_start=12), accept_loss=accepted_offset) == 20


def test_used_offset_is_ignored_at_the_end() -> None:
    """No record in the log proves that all commands are decided."""
    accepted = claim(accepted=AcceptedLoss(12, (0, 0), 0))
    assert (
        position(log(last=19, last_outcome_matches=False, committed=20, claim=accepted), accept_loss=12) == 20
    )


def test_outcomes_outweigh_the_committed_offset() -> None:
    """The committed offset counts if the outcomes were deleted, but not if the outcomes contradict it."""
    assert position(log(last_outcome_matches=False, committed=15), accept_loss=12) == 12
    assert position(log(last=None, committed=0, has_events=True), accept_loss=0) == 0
    assert position(log(last=None, committed=0, outcomes_start=7)) == 0
