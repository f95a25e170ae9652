"""Repartitioned partitions: correct work of their owners has no violation, and each fault is reported."""

import random

import msgspec
import pytest
from hypothesis import given

from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.fingerprints import fits_whole
from cqrs_cli.proof.forwarded_commands import missing_commands
from cqrs_cli.proof.key_partitions import KeyPartitions
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.split_clock import SplitClock
from tests.proof.history import Wish, seeds, wish
from tests.proof.repartitioned import Grown, grown_partitions
from tests.support.commands import FAR


@pytest.fixture
def grown() -> Grown:
    return grown_partitions()


def test_owners_are_no_fault(grown: Grown) -> None:
    assert grown.found() == []


def test_parent_decides_for_its_child(grown: Grown) -> None:
    """An owner does so if it takes the partition count from outdated metadata."""
    grown.decide(0, wish(1, "1", expectedversion="any"), partition_of=lambda key: 0)
    found = grown.found()
    assert any(one.endswith("is of '1', whose partition is 1") for one in found)
    assert any(one.endswith("is accepted, and '1' has moved to partition 1") for one in found)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"movedto": 3}, "is MOVED, and '1' has moved to partition 1"),
        ({"status": "failed", "reason": "WRONG_PARTITION"}, "is WRONG_PARTITION, and '1' has moved to"),
        ({"due": "2001-01-01T00:00:00Z"}, "is MOVED, and due at '2001-01-01T00:00:00Z' instead of"),
        ({"attempt": 1}, "is deferred with a time when it is due, with an attempt"),
        ({"reason": "LATER", "attempt": 1}, "is LATER with a partition to which its key has moved"),
    ],
)
def test_altered_forward_is_found(grown: Grown, data: dict[str, object], says: str) -> None:
    grown.edit(0, 6, data)
    assert any(says in one for one in grown.found())


def test_key_at_home_has_not_moved(grown: Grown) -> None:
    grown.edit(0, 5, {"status": "deferred", "reason": "MOVED", "movedto": 1, "version": 0, "events": 0})
    assert "outcomes 0@5 is MOVED, and the partition of '0' is 0" in grown.found()


def test_stranger_forwards_nothing(grown: Grown) -> None:
    """The partition never had the key."""
    grown.decide(2, wish(1, "3"), forward_target_of=lambda key: 3)
    assert any(
        one.endswith("is MOVED, and the partition of '3' is 3") for one in grown.found() if "2@" in one
    )


@pytest.mark.parametrize("log", ["events", "outcomes"])
@pytest.mark.parametrize("by", [1, -1])
def test_logs_part_at_the_split(grown: Grown, log: str, by: int) -> None:
    before = getattr(grown.lineage.splits[0], log)
    grown.change_split(**{log: before + by})
    assert any(one.startswith(log) and "and the split at command 5 is at" in one for one in grown.found())


@pytest.mark.parametrize("commands", [4, 6])
def test_commands_part_at_the_split(grown: Grown, commands: int) -> None:
    grown.change_split(commands=commands)
    assert any(one.startswith("outcomes 0@") for one in grown.found())


def test_command_may_be_too_large_to_follow(grown: Grown) -> None:
    """The outcome states it. A different message is a violation."""
    grown.decide(0, wish(1, "1"), deferrals=Deferrals(limits=DeferralLimits(command_bytes=50)))
    assert grown.found() == []
    grown.edit(0, -1, {"message": "it belongs to partition 1"})
    assert any("is WRONG_PARTITION, and '1' has moved to partition 1" in one for one in grown.found())


def test_children_begin_before_they_decide(grown: Grown) -> None:
    lineage = grown.lineage
    grown.lineage = PartitionLineage(lineage.counts, lineage.splits, lineage.activated - {1})
    assert (
        "outcomes 1@0 is of a partition that has not begun: its lineage has no record of that"
        in grown.found()
    )


def test_versions_go_on_at_the_child(grown: Grown) -> None:
    grown.decide(3, wish(1, "3"), state_of=lambda key: None)
    assert any(
        "goes on from version 0 of '3', which is at 5: a version is there twice" in one
        for one in grown.found()
    )


def test_ids_are_known_at_the_child(grown: Grown) -> None:
    grown.decide(1, wish(2, "1", "one"), dedup_entry_of=lambda *key: None)
    assert any("decides id 'one' of '1' again, as command 0/1 " in one for one in grown.found())


@pytest.mark.parametrize(
    ("original", "says"),
    [
        ({"offset": 0, "partition": 0}, "points to command 0/0, which has no outcome before it"),
        ({"offset": 2, "partition": 0}, "points to command 0/2, whose outcome is another's"),
        ({"offset": 1, "partition": 7}, "points to command 7/1, which has no outcome before it"),
    ],
)
def test_repetition_points_to_the_parent(grown: Grown, original: dict[str, int], says: str) -> None:
    grown.edit(1, 2, {"original": {"status": "accepted", "version": 2, "events": 2, **original}})
    assert f"outcomes 1@2 {says}" in grown.found()


def test_forwarded_commands_are_compared(grown: Grown) -> None:
    reports = [grown.prove(partition) for partition in range(4)]
    assert [{**one.forwarded_to} for one in reports[:2]] == [
        {1: reports[1].received_from[0], 2: reports[2].received_from[0]},
        {3: reports[3].received_from[1]},
    ]


def lost_at(
    grown: Grown, copies: list[Record], originals: list[Record], **more: int
) -> list[tuple[int, str]]:
    outcomes = grown.logs["outcomes"][0]
    return list(missing_commands(0, 1, outcomes, originals, copies, more.get("since"), fits_whole))


def test_lost_command_is_named(grown: Grown) -> None:
    sent, commands = grown.logs["commands"][0], grown.logs["commands"][1]
    assert lost_at(grown, [*commands, commands[0]], sent) == []
    ((at, what),) = lost_at(grown, commands[1:], sent)
    assert (at, what) == (6, "is MOVED, and partition 1 has no command 'c6.0' that was forwarded from 0/6")
    assert lost_at(grown, commands[3:], sent, since=grown.logs["outcomes"][0][8].timestamp) == []


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b'"n": 1', b'"n": 9000'),
        (b'"data"', b'"correlationid":"other","data"'),
        (b'"/test"', b'"/other"'),
    ],
)
def test_altered_copy_is_named(grown: Grown, was: bytes, now: bytes, is_deleted: bool) -> None:
    """If the original was deleted, its outcome still shows other data and another correlationid."""
    commands = grown.logs["commands"][1]
    value = commands[0].value or b""
    assert was in value
    sent = [] if is_deleted else grown.logs["commands"][0]
    assert lost_at(grown, commands, sent) == []
    commands[0] = msgspec.structs.replace(commands[0], value=value.replace(was, now))
    assert grown.prove(1).received_from[0] != grown.prove(0).forwarded_to[1]
    what = "is MOVED, and command 1/0, which was forwarded from 0/6, has other content"
    assert lost_at(grown, commands, sent) == ([] if is_deleted and was == b'"/test"' else [(6, what)])


def test_waiting_commands_move_on(grown: Grown) -> None:
    """Deferred commands move through two splits. A target's own topic has the open deferrals of its parent."""
    assert [len(grown.logs["deferred"][partition]) for partition in range(4)] == [2, 1, 1, 1]
    grown.logs["deferred"][3].clear()
    assert grown.found() == ["deferred 3@0 is where command 0/3 should wait, which is deferred"]


def test_altered_inheritance_is_found(grown: Grown) -> None:
    (record,) = grown.logs["deferred"][2]
    value = (record.value or b"").replace(b'"attempt":0', b'"attempt":2')
    grown.logs["deferred"][2] = [msgspec.structs.replace(record, value=value)]
    assert "deferred 2@0 is attempt 2 of command 0/4, its outcome says 0" in grown.found()


def test_children_take_over_what_is_below(grown: Grown) -> None:
    """After the split, no record of a moved key may follow in the parent, not even the end of a deferral."""
    grown.change_split(deferred=0)
    assert "deferred 0@0 is of '3', which was given away at 0, by the split at command 5" in grown.found()
    grown.change_split(deferred=2)
    log = grown.logs["deferred"][0]
    log.append(msgspec.structs.replace(log[0], offset=2, value=None))
    assert "deferred 0@2 is of '3', which was given away at 2, by the split at command 5" in grown.found()


def test_later_deferrals_are_not_inherited(grown: Grown) -> None:
    grown.decide(0, wish(1, "4", notbefore=FAR))
    assert grown.found() == []
    grown.change_split(deferred=3)
    assert grown.found() == ["deferred 0@2 is of command 11, and the split at command 5 is at 3"]


@pytest.mark.parametrize("by", [-1, 1])
def test_split_has_the_clock_of_its_outcomes(grown: Grown, by: int) -> None:
    grown.change_split(clock=grown.lineage.splits[0].clock + by)
    (found,) = [
        one for one in grown.found() if one.startswith("outcomes 0@5 is where the split at command 5")
    ]
    assert found.endswith(": the latest decision below it is of 1970-01-01T00:16:40.005Z")


@pytest.mark.parametrize(("clock", "found"), [(2, 1), (3, 0), (4, 0)])
def test_deleted_outcomes_may_be_later(clock: int, found: int) -> None:
    """If only the last outcomes remain, a clock before theirs is a violation."""
    lineage, findings = PartitionLineage((1, 2), (Split(0, 1, 2, 9, 9, 9, 0, clock),)), Findings()
    starts: dict[LogName, int] = {"outcomes": 8}
    scope = Scope(
        "tally", "t.commands", 0, starts, 1000, key_partitions=KeyPartitions(lineage, 0, lambda *_: 0)
    )
    seen = SplitClock(scope, findings, 8, 0)
    for offset, timestamp in ((8, 3), (9, 5)):
        seen.add_outcome(Record(offset, timestamp, None, None))
    seen.finish_clock()
    assert findings.count == found


def test_nothing_waits_that_nobody_left(grown: Grown) -> None:
    (record,) = grown.logs["deferred"][2]
    grown.logs["deferred"][2].append(msgspec.structs.replace(record, offset=1, key=b"/0/1"))
    assert "deferred 2@1 is of command 0/1, which is not deferred" in grown.found()


@given(seeds)
def test_every_growth_is_silent(seed: int) -> None:
    """Any command is sent to any partition, in any stage of the others: there is no violation and no lost command."""
    history = grown_at_random(random.Random(seed))
    assert history.found() == []
    pairs = [(source, to) for source in range(4) for to in range(4)]
    outcomes, commands = history.logs["outcomes"], history.logs["commands"]
    assert [
        one
        for one in pairs
        for _ in missing_commands(
            *one, outcomes[one[0]], commands[one[0]], commands[one[1]], None, fits_whole
        )
    ] == []


def grown_at_random(choice: random.Random) -> Grown:
    history = Grown()
    for _ in range(12):
        lineage = history.lineage
        deciding = [one for one in range(lineage.counts[-1]) if lineage.active_count(one) is not None]
        partition = choice.choice(deciding)
        after = lineage.next_count(partition, 4) or 2 * lineage.counts[-1]
        if choice.random() < 0.3 and after <= 4:
            history.split(partition, after)
        else:
            history.decide(partition, *(sent_at_random(choice) for _ in range(choice.randrange(4))))
    for partition in range(history.lineage.counts[-1]):
        if history.lineage.active_count(partition) is not None:
            history.decide(partition)
    return history


def sent_at_random(choice: random.Random) -> Wish:
    subject = choice.choice("01234567")
    if choice.random() < 0.2:
        return wish(1, subject, notbefore=FAR)
    return wish(choice.randrange(-1, 3), subject, choice.choice(["", "", "x", "y"]))
