"""Positions that most transactions omit break no promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.beats.steps import explore
from tests.model.beats.world import Rules, Scenario, new_owner

ONE_RUN = Scenario("one run crashes", (new_owner(1, starts=3),), faults=2, crashes=True)
TAKEOVER = Scenario("a later run takes over", (new_owner(1), new_owner(2)), late_markers=True)
UPGRADE = Scenario(
    "old and new owners in turn",
    (new_owner(1), new_owner(2, is_old=True), new_owner(3)),
    ("accepted", "rejected"),
)
LOST_MARKERS = Scenario(
    "Kafka loses a marker",
    (new_owner(1, starts=3),),
    ("accepted", "deferred"),
    faults=1,
    late_markers=True,
    loses_markers=True,
)
OUTDATED_LEADER = Scenario(
    "the leader of the logs is cut off",
    (new_owner(1), new_owner(2, starts=2)),
    ("accepted", "accepted"),
    faults=1,
    outdated_logs=True,
)
OUTDATED_COORDINATOR = replace(
    OUTDATED_LEADER,
    name="the coordinator of the group is cut off",
    outdated_logs=False,
    outdated_group=True,
)
OUTDATED_BOTH = replace(OUTDATED_LEADER, name="leader and coordinator are cut off", outdated_group=True)
SPLIT = replace(OUTDATED_LEADER, name="the leader is cut off, and the partition splits", splits=True)
RETENTION = Scenario(
    "retention deletes the outcomes",
    (new_owner(1, starts=3),),
    ("accepted", "accepted", "accepted"),
    faults=3,
    crashes=True,
    retention=True,
)
DEADLY = Scenario("a command kills its worker", (new_owner(1, starts=7),), faults=1, crashes=True, deadly=1)
HANG = Scenario("a command seems to hang", (new_owner(1, starts=3),), faults=2, hangs=True)
SCENARIOS = [
    ONE_RUN,
    TAKEOVER,
    UPGRADE,
    LOST_MARKERS,
    OUTDATED_LEADER,
    OUTDATED_COORDINATOR,
    OUTDATED_BOTH,
    SPLIT,
    RETENTION,
    DEADLY,
    HANG,
]

TWICE = "a command is decided twice"
EXIT_5 = "exit 5, but no operator has acted"

#: Each rule broken, with a scenario that shows it, and the broken promise.
BROKEN_RULES = {
    "the claim is committed with the group's offset": (Rules(reads_last_outcome=False), ONE_RUN, EXIT_5),
    "the outcomes are read before the fence": (Rules(reads_after_fence=False), TAKEOVER, EXIT_5),
    "a changed claim is not due": (
        Rules(commits_changed_claim=False),
        ONE_RUN,
        "commands are suspected, although their owner has decided a command",
    ),
    "records may get other offsets": (Rules(checks_offsets=False), OUTDATED_LEADER, TWICE),
    "position and end of the outcomes come from two reads": (
        Rules(appends_after_position=False),
        OUTDATED_LEADER,
        TWICE,
    ),
    "a split does not prove the ends of the logs": (
        Rules(proves_ends_before_split=False),
        SPLIT,
        "a split omits decisions",
    ),
    "a hidden record in another topic names no command": (
        Rules(traces_other_records=False),
        LOST_MARKERS,
        "an outcome has lost its records",
    ),
    "records in other topics do not make the position due": (
        Rules(commits_other_records=False),
        LOST_MARKERS,
        "a record has lost its outcome",
    ),
    "a hidden transaction is always aborted": (
        Rules(resolves_by_traces=False),
        LOST_MARKERS,
        EXIT_5,
    ),
    "the watchdog reads the group alone": (
        Rules(blames_after_outcomes=False),
        HANG,
        "a decided command is blamed",
    ),
    "the last event does not count": (Rules(reads_last_event=False), RETENTION, TWICE),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_omitted_positions_break_no_promise(scenario: Scenario) -> None:
    result = explore(scenario, Rules(), 300_000)
    result.check_kept(scenario.name)
    assert result.worlds < 300_000


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_broken_rule_of_positions_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BROKEN_RULES[rule]
    explore(scenario, rules).check_broken(broken_promise)


def test_current_group_offset_reveals_an_outdated_leader() -> None:
    """If each transaction commits the position, the end of the outcomes may come from a later read."""
    rules = Rules(omits_positions=False, appends_after_position=False)
    explore(OUTDATED_LEADER, rules).check_kept(OUTDATED_LEADER.name)


def test_current_group_offset_makes_splits_safe() -> None:
    rules = Rules(omits_positions=False, proves_ends_before_split=False)
    explore(SPLIT, rules).check_kept(SPLIT.name)


def test_rejected_commands_may_repeat_after_retention() -> None:
    """The documented exception: rejected commands since the last commit of a position have no event."""
    scenario = replace(RETENTION, commands=("accepted", "accepted", "rejected"))
    explore(scenario, Rules()).check_broken(TWICE)
