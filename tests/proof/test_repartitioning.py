"""Repartitioned partitions: correct work of their owners has no violation, and each fault is reported."""

import random

import msgspec
import pytest
from hypothesis import given

from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.messages.record import Record
from cqrs_cli.keyspace.key_history import KeyHistory
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.fingerprints import fits_whole
from cqrs_cli.proof.forwarded_commands import missing_commands
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.split_clock import SplitChecker
from tests.proof.history import PlannedCommand, plan_command, seeds
from tests.proof.repartitioned import RepartitionedHistory, repartitioned_history
from tests.support.commands import FAR_FUTURE


@pytest.fixture
def history() -> RepartitionedHistory:
    return repartitioned_history()


def test_correct_owners_cause_no_violation(history: RepartitionedHistory) -> None:
    assert history.violations() == []


def test_parent_decides_for_its_target(history: RepartitionedHistory) -> None:
    """An owner does so if it takes the partition count from outdated metadata."""
    history.decide(0, plan_command(1, "1", expectedversion="any"), partition_of=lambda key: 0)
    violations = history.violations()
    assert any(violation.endswith("is of '1', whose partition is 1") for violation in violations)
    assert any(
        violation.endswith("is accepted, but '1' has moved to partition 1") for violation in violations
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"movedto": 3}, "is MOVED, but '1' has moved to partition 1"),
        ({"status": "failed", "reason": "WRONG_PARTITION"}, "is WRONG_PARTITION, but '1' has moved to"),
        ({"due": "2001-01-01T00:00:00Z"}, "is MOVED, and due at '2001-01-01T00:00:00Z' instead of"),
        ({"attempt": 1}, "is deferred with a time when it is due, with an attempt"),
        ({"reason": "LATER", "attempt": 1}, "is LATER with a partition to which its key has moved"),
    ],
)
def test_altered_forward_is_found(
    history: RepartitionedHistory, data: dict[str, object], problem: str
) -> None:
    history.edit(0, 6, data)
    assert any(problem in violation for violation in history.violations())


def test_key_in_its_partition_is_not_forwarded(history: RepartitionedHistory) -> None:
    history.edit(0, 5, {"status": "deferred", "reason": "MOVED", "movedto": 1, "version": 0, "events": 0})
    assert "outcomes 0@5 is MOVED, but the partition of '0' is 0" in history.violations()


def test_partition_without_key_forwards_nothing(history: RepartitionedHistory) -> None:
    """The partition never had the key."""
    history.decide(2, plan_command(1, "3"), forward_target_of=lambda key: 3)
    assert any(
        violation.endswith("is MOVED, but the partition of '3' is 3")
        for violation in history.violations()
        if "2@" in violation
    )


@pytest.mark.parametrize("log", ["events", "outcomes"])
@pytest.mark.parametrize("shift", [1, -1])
def test_split_names_the_ends_of_logs(history: RepartitionedHistory, log: str, shift: int) -> None:
    before = getattr(history.lineage.splits[0], log)
    history.change_split(**{log: before + shift})
    assert any(
        violation.startswith(log) and "but the split at command 5 is at" in violation
        for violation in history.violations()
    )


@pytest.mark.parametrize("commands", [4, 6])
def test_split_names_the_end_of_commands(history: RepartitionedHistory, commands: int) -> None:
    history.change_split(commands=commands)
    assert any(violation.startswith("outcomes 0@") for violation in history.violations())


def test_command_may_be_too_large_to_forward(history: RepartitionedHistory) -> None:
    """The outcome states it. A different message is a violation."""
    history.decide(0, plan_command(1, "1"), deferrals=Deferrals(limits=DeferralLimits(command_bytes=50)))
    assert history.violations() == []
    history.edit(0, -1, {"message": "it belongs to partition 1"})
    assert any(
        "is WRONG_PARTITION, but '1' has moved to partition 1" in violation
        for violation in history.violations()
    )


def test_targets_are_activated_before_deciding(history: RepartitionedHistory) -> None:
    lineage = history.lineage
    history.lineage = PartitionLineage(lineage.counts, lineage.splits, lineage.activated - {1})
    assert (
        "outcomes 1@0 is of a pending partition: the partition history has no record of its activation"
        in history.violations()
    )


def test_versions_continue_at_the_target(history: RepartitionedHistory) -> None:
    history.decide(3, plan_command(1, "3"), state_of=lambda key: None)
    assert any(
        "goes on from version 0 of '3', which is at 5: a version is repeated" in violation
        for violation in history.violations()
    )


def test_ids_are_known_at_the_target(history: RepartitionedHistory) -> None:
    history.decide(1, plan_command(2, "1", "one"), dedup_entry_of=lambda *key: None)
    assert any(
        "decides id 'one' of '1' again, as command 0/1 " in violation for violation in history.violations()
    )


@pytest.mark.parametrize(
    ("original", "problem"),
    [
        ({"offset": 0, "partition": 0}, "points to command 0/0, which has no outcome before it"),
        ({"offset": 2, "partition": 0}, "points to command 0/2, whose outcome is of another id"),
        ({"offset": 1, "partition": 7}, "points to command 7/1, which has no outcome before it"),
    ],
)
def test_repetition_points_to_the_parent(
    history: RepartitionedHistory, original: dict[str, int], problem: str
) -> None:
    history.edit(1, 2, {"original": {"status": "accepted", "version": 2, "events": 2, **original}})
    assert f"outcomes 1@2 {problem}" in history.violations()


def test_forwarded_commands_are_compared(history: RepartitionedHistory) -> None:
    reports = [history.verify(partition) for partition in range(4)]
    assert [{**report.forwarded_to} for report in reports[:2]] == [
        {1: reports[1].received_from[0], 2: reports[2].received_from[0]},
        {3: reports[3].received_from[1]},
    ]


def missing_in_target(
    history: RepartitionedHistory, copies: list[Record], originals: list[Record], **more: int
) -> list[tuple[int, str]]:
    outcomes = history.logs["outcomes"][0]
    return list(missing_commands(0, 1, outcomes, originals, copies, more.get("since"), fits_whole))


def test_lost_command_is_named(history: RepartitionedHistory) -> None:
    parent_commands, commands = history.logs["commands"][0], history.logs["commands"][1]
    assert missing_in_target(history, [*commands, commands[0]], parent_commands) == []
    ((offset, problem),) = missing_in_target(history, commands[1:], parent_commands)
    assert (offset, problem) == (
        6,
        "is MOVED, but partition 1 has no command 'c6.0' that was forwarded from 0/6",
    )
    assert (
        missing_in_target(
            history, commands[3:], parent_commands, since=history.logs["outcomes"][0][8].timestamp
        )
        == []
    )


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"n": 1', b'"n": 9000'),
        (b'"data"', b'"correlationid":"other","data"'),
        (b'"/test"', b'"/other"'),
    ],
)
def test_altered_copy_is_named(
    history: RepartitionedHistory, old: bytes, new: bytes, is_deleted: bool
) -> None:
    """If the original was deleted, its outcome still shows other data and another correlationid."""
    commands = history.logs["commands"][1]
    value = commands[0].value or b""
    assert old in value
    parent_commands = [] if is_deleted else history.logs["commands"][0]
    assert missing_in_target(history, commands, parent_commands) == []
    commands[0] = msgspec.structs.replace(commands[0], value=value.replace(old, new))
    assert history.verify(1).received_from[0] != history.verify(0).forwarded_to[1]
    problem = "is MOVED, but command 1/0, which was forwarded from 0/6, has other content"
    assert missing_in_target(history, commands, parent_commands) == (
        [] if is_deleted and old == b'"/test"' else [(6, problem)]
    )


def test_deferred_commands_move_to_targets(history: RepartitionedHistory) -> None:
    """Deferred commands move through two splits. A target's own topic has the open deferrals of its parent."""
    assert [len(history.logs["deferred"][partition]) for partition in range(4)] == [2, 1, 1, 1]
    history.logs["deferred"][3].clear()
    assert history.violations() == ["deferred 3@0 lacks the deferred command 0/3"]


def test_altered_imported_deferral_is_found(history: RepartitionedHistory) -> None:
    (record,) = history.logs["deferred"][2]
    value = (record.value or b"").replace(b'"attempt":0', b'"attempt":2')
    history.logs["deferred"][2] = [msgspec.structs.replace(record, value=value)]
    assert "deferred 2@0 is attempt 2 of command 0/4, its outcome says 0" in history.violations()


def test_moved_keys_leave_the_parent(history: RepartitionedHistory) -> None:
    """After the split, no record of a moved key may follow in the parent, not even the end of a deferral."""
    history.change_split(deferred=0)
    assert (
        "deferred 0@0 is of '3', which moved to a child at 0, by the split at command 5"
        in history.violations()
    )
    history.change_split(deferred=2)
    log = history.logs["deferred"][0]
    log.append(msgspec.structs.replace(log[0], offset=2, value=None))
    assert (
        "deferred 0@2 is of '3', which moved to a child at 2, by the split at command 5"
        in history.violations()
    )


def test_later_deferrals_are_not_inherited(history: RepartitionedHistory) -> None:
    history.decide(0, plan_command(1, "4", notbefore=FAR_FUTURE))
    assert history.violations() == []
    history.change_split(deferred=3)
    assert history.violations() == ["deferred 0@2 is of command 11, but the split at command 5 is at 3"]


@pytest.mark.parametrize("shift", [-1, 1])
def test_split_has_the_clock_of_its_outcomes(history: RepartitionedHistory, shift: int) -> None:
    history.change_split(clock=history.lineage.splits[0].clock + shift)
    (violation,) = [
        violation
        for violation in history.violations()
        if violation.startswith("outcomes 0@5 is where the split at command 5")
    ]
    assert violation.endswith(": the latest decision before it is of 1970-01-01T00:16:40.005Z")


@pytest.mark.parametrize(("clock", "count"), [(2, 1), (3, 0), (4, 0)])
def test_deleted_outcomes_may_be_later(clock: int, count: int) -> None:
    """If only the last outcomes remain, a clock before theirs is a violation."""
    lineage, findings = PartitionLineage((1, 2), (Split(0, 1, 2, 9, 9, 9, 0, clock),)), Findings()
    starts: dict[LogName, int] = {"outcomes": 8}
    scope = Scope("tally", "t.commands", 0, starts, 1000, key_history=KeyHistory(lineage, 0, lambda *_: 0))
    split_clock = SplitChecker(scope, findings, 8, 0)
    for offset, timestamp in ((8, 3), (9, 5)):
        split_clock.add_outcome(Record(offset, timestamp, None, None))
    split_clock.finish_clock()
    assert findings.count == count


def test_unknown_imported_deferral_is_found(history: RepartitionedHistory) -> None:
    (record,) = history.logs["deferred"][2]
    history.logs["deferred"][2].append(msgspec.structs.replace(record, offset=1, key=b"/0/1"))
    assert "deferred 2@1 is of command 0/1, which is not deferred" in history.violations()


@given(seeds)
def test_any_repartitioning_causes_no_violation(seed: int) -> None:
    """Any command is sent to any partition, in any stage of the others: there is no violation and no lost command."""
    history = random_history(random.Random(seed))
    assert history.violations() == []
    pairs = [(source, target) for source in range(4) for target in range(4)]
    outcomes, commands = history.logs["outcomes"], history.logs["commands"]
    assert [
        pair
        for pair in pairs
        for _ in missing_commands(
            *pair, outcomes[pair[0]], commands[pair[0]], commands[pair[1]], None, fits_whole
        )
    ] == []


def random_history(rng: random.Random) -> RepartitionedHistory:
    history = RepartitionedHistory()
    for _ in range(12):
        lineage = history.lineage
        active = [number for number in range(lineage.counts[-1]) if lineage.active_count(number) is not None]
        partition = rng.choice(active)
        after = lineage.next_count(partition, 4) or 2 * lineage.counts[-1]
        if rng.random() < 0.3 and after <= 4:
            history.split(partition, after)
        else:
            history.decide(partition, *(random_command(rng) for _ in range(rng.randrange(4))))
    for partition in range(history.lineage.counts[-1]):
        if history.lineage.active_count(partition) is not None:
            history.decide(partition)
    return history


def random_command(rng: random.Random) -> PlannedCommand:
    subject = rng.choice("01234567")
    if rng.random() < 0.2:
        return plan_command(1, subject, notbefore=FAR_FUTURE)
    return plan_command(rng.randrange(-1, 3), subject, rng.choice(["", "", "x", "y"]))
