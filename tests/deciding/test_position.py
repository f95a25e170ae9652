"""Every possible state of a partition's logs when an owner starts."""

import pytest

from cqrs_cli.deciding.position import LogState, gap, position
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Accepted, Claim
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


@pytest.mark.parametrize("unproven", [None, claim(topic_id=UNKNOWN_TOPIC)])
def test_foreign_commit_proves_no_completeness(
    unproven: Claim | None,
) -> None:
    with pytest.raises(ContradictionError, match="commands 10 to 12 were deleted"):
        position(log(committed=15, start=13, claim=unproven))


@pytest.mark.parametrize(
    ("count", "hint"), [(3, "fewer partitions would spread"), (8, "--partitions 8"), (9, "--partitions 12")]
)
def test_another_number_of_partitions_is_refused(count: int, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        position(log(partitions=count))
    assert raised.value.exit_code == 3
    assert hint in raised.value.hint
    assert f"had 4 partitions and now has {count}" in raised.value.message


@pytest.mark.parametrize(("claimed", "judging"), [(4, 4), (4, 8)])
def test_split_partition_goes_on(claimed: int, judging: int) -> None:
    """The claim may be from before the split. The partition history has the partition count."""
    assert position(log(was_repartitioned=True, claim=claim(partitions=claimed), partitions=judging)) == 10


def test_lineage_below_the_claim_is_not_all() -> None:
    """The broker may lag: the count in the claim was committed together with the split."""
    with pytest.raises(ContradictionError, match="has split to 8 partitions, its partition history has 4"):
        position(log(was_repartitioned=True, claim=claim(partitions=8)))


@pytest.mark.parametrize(
    ("state", "says", "onward"),
    [
        (log(topic_id="other", start=2), "deleted and created again", 2),
        (log(other_ids=("other", "o")), "the topic of its events was deleted and created again", 10),
        (log(other_ids=("other", "o"), committed=15), "its events was deleted and created again", 15),
        (log(last=None, other_ids=("e", "other")), "the topic of its outcomes was deleted and created", 10),
        (log(last=None, committed=None, has_events=True), "events but no outcome", 0),
        (log(last=None, has_events=True, outcomes_start=7, claim=None), "events but no outcome", 0),
        (
            log(last=None, committed=None, last_event=6, has_events=True, last_event_matches=True),
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
        (log(other_ids=("new", "o"), claim=claim(accepted=Accepted(10, (0, 9), 9))), "its events was", 10),
        (
            log(committed=7, claim=claim(accepted=Accepted(7, (0, 9), 9))),
            "7 is committed but 9 is decided",
            10,
        ),
        (log(last_event=10), "command 10 has events but no outcome", 11),
        (log(last=None, committed=None, last_event=3), "command 3 has events but no outcome", 4),
        (log(committed=5), "offset 5 is committed but 9 is decided", 10),
        (log(committed=10, end=8), "offset 9 is decided but the log ends at 8", 8),
        (log(committed=25), "offset 25 is committed but the log ends at 20", 10),
        (log(last=None, committed=0, other_ids=("other", "o")), "the topic of its events was deleted", 0),
        (log(start=12), "commands 10 to 11 were deleted", 12),
        (log(start=12, committed=None), "commands 10 to 11 were deleted", 12),
        (log(last=None, committed=None, start=4), "commands 0 to 3 were deleted", 4),
    ],
)
def test_contradiction_names_the_way_out(state: LogState, says: str, onward: int) -> None:
    with pytest.raises(ContradictionError, match=says) as raised:
        position(state)
    assert raised.value.exit_code == 5
    assert "t.bank.commands partition 3: " in raised.value.message
    assert raised.value.hint.endswith(f": cqrs run --accept-loss bank:3@{onward}")


def test_accepted_place_overrides_contradictions() -> None:
    assert position(log(start=12), accept_loss=12) == 12
    assert position(log(topic_id="other"), accept_loss=0) == 0
    with pytest.raises(ConfigurationError):
        position(log(partitions=5), accept_loss=12)


def test_expired_outcomes_defer_to_committed_offset() -> None:
    idle = log(last=None, has_events=True, last_event=9, outcomes_start=12)
    assert position(idle) == 10
    assert position(idle._replace(start=10)) == 10
    assert position(idle._replace(outcomes_start=1)) == 10
    with pytest.raises(
        ContradictionError,
        match=": there are events but no outcome, so it is unknown which commands were decided;",
    ):
        position(idle._replace(outcomes_start=0))
    assert gap(idle, 10) == (10, 10)


def test_earlier_place_is_ignored() -> None:
    assert position(log(), accept_loss=3) == 10
    assert position(log(committed=None, claim=None), accept_loss=3) == 10
    with pytest.raises(ContradictionError, match="offset 25 is committed"):
        position(log(committed=25), accept_loss=9)
    assert position(log(last_outcome_matches=False, topic_id="other"), accept_loss=3) == 3
    assert position(log(last_outcome_matches=False, claim=None), accept_loss=3) == 3


def test_accepted_place_needs_its_outcomes() -> None:
    """Retention has deleted the records of the time of acceptance, perhaps more, so the committed offset counts."""
    accepted = log(last=None, committed=15, start=12, claim=claim(accepted=Accepted(12, (0, 9), 9)))
    assert position(accepted._replace(outcomes_start=9)) == 12
    assert gap(accepted, 12) == (12, 15)
    assert position(accepted._replace(outcomes_start=10)) == 15


def test_accepted_place_lasts_until_decided() -> None:
    accepted = claim(accepted=Accepted(12, (0, 0), 0))
    assert position(log(start=12, committed=12, claim=accepted)) == 12
    assert position(log(start=12, committed=12, claim=accepted), accept_loss=12) == 12


def test_accepted_place_covers_a_second_loss() -> None:
    lost = log(
        other_ids=("new", "o"),
        last_outcome_matches=False,
        committed=12,
        claim=claim(accepted=Accepted(12, (0, 9), 9)),
    )
    assert position(lost, accept_loss=12) == 12


def test_events_limit_the_accepted_place() -> None:
    lost = log(last=None, committed=None, claim=None, has_events=True, last_event=6, last_event_matches=True)
    with pytest.raises(ContradictionError, match="no outcome"):
        position(lost, accept_loss=6)
    assert position(lost, accept_loss=7) == 7


def test_spent_place_changes_nothing() -> None:
    later = log(last=14, committed=15, start=12, claim=claim(accepted=Accepted(12, (0, 0), 0)))
    assert position(later, accept_loss=12) == position(later) == 15


def test_accepted_place_works_again_after_truncation() -> None:
    cut = log(last=None, end=12, committed=15, claim=claim(accepted=Accepted(12, (0, 0), 0)))
    with pytest.raises(ContradictionError, match="ends at 12") as raised:
        position(cut)
    assert raised.value.hint.endswith("bank:3@12")
    assert position(cut, accept_loss=12) == 12


def test_spent_place_is_not_offered_again() -> None:
    torn = log(last=9, last_event=11, committed=15, claim=claim(accepted=Accepted(12, (0, 0), 0)))
    with pytest.raises(ContradictionError, match="command 11 has events but no outcome") as raised:
        position(torn, accept_loss=12)
    assert raised.value.hint.endswith("bank:3@15")
    assert position(torn, accept_loss=15) == 15


@pytest.mark.parametrize("offset", [11, 21])
def test_place_outside_log_is_refused(offset: int) -> None:
    with pytest.raises(CqrsError, match="12 to 20") as raised:
        position(log(start=12), accept_loss=offset)
    assert raised.value.message == f"t.bank.commands partition 3 has no offset {offset}"
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("accepted_offset", [0, 12, 19])
def test_place_is_ignored_once_all_is_decided(accepted_offset: int) -> None:
    assert position(log(last=19, committed=20), accept_loss=accepted_offset) == 20
    assert position(log(last=None, committed=20, outcomes_start=12), accept_loss=accepted_offset) == 20


def test_spent_place_is_ignored_at_the_end() -> None:
    """No record in the log proves that all commands are decided."""
    accepted = claim(accepted=Accepted(12, (0, 0), 0))
    assert (
        position(log(last=19, last_outcome_matches=False, committed=20, claim=accepted), accept_loss=12) == 20
    )


def test_offset_alone_does_not_decide() -> None:
    """The committed offset counts if the outcomes were deleted, but not if the outcomes contradict it."""
    assert position(log(last_outcome_matches=False, committed=15), accept_loss=12) == 12
    assert position(log(last=None, committed=0, has_events=True), accept_loss=0) == 0
    assert position(log(last=None, committed=0, outcomes_start=7)) == 0
