"""Each fault written into real topics is reported."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.jobs.verify.driver import plan_verify, verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind
from tests.jobs.verify.verification import change, kinds, verified
from tests.support import ROOT
from tests.support.commands import command, mixture
from tests.support.foreign_records import append, edited, rewrite
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.sampling import sampled

TESTS = ROOT / "tests"
pytestmark = pytest.mark.kafka


def test_repeated_event_is_found(decided: TopicHarness) -> None:
    (offset,) = append(decided, "events", decided.records("events")[3])
    (violation,) = decided.violations()
    assert violation.startswith(f"{decided.topics.events} partition 0 offset {offset} is of command ")


def test_repeated_outcome_is_found(decided: TopicHarness) -> None:
    (offset,) = append(decided, "outcomes", decided.records("outcomes")[7])
    (violation,) = decided.violations()
    assert violation.startswith(f"{decided.topics.outcomes} partition 0 offset {offset} is of command ")


def test_event_without_command_is_found(decided: TopicHarness) -> None:
    last = decided.records("events")[-1]
    version = json.loads(last.value or b"")["aggregateversion"] + 1
    (offset,) = append(decided, "events", edited(last, id="0/9999/0", aggregateversion=version))
    assert decided.violations() == [
        f"{decided.topics.events} partition 0 offset {offset} is of command 9999, which is not decided yet"
    ]


def test_record_on_wrong_partition(decided: TopicHarness) -> None:
    (event,) = append(decided, "events", decided.records("events", 0)[0], partition=1)
    (outcome,) = append(decided, "outcomes", decided.records("outcomes", 1)[0], partition=0)
    assert decided.violations() == [
        f"{decided.topics.outcomes} partition 0 offset {outcome} is of a command on partition 1",
        f"{decided.topics.events} partition 1 offset {event} is of a command on partition 0",
    ]


@pytest.mark.covers("verifiable")
def test_event_that_code_cannot_read(decided: TopicHarness) -> None:
    """An event that the code cannot read is reported once. Without the code it cannot be found."""
    last = decided.records("events")[-1]
    version = json.loads(last.value or b"")["aggregateversion"] + 1
    strange = edited(last, type="bank_account.Borrowed", id="0/9999/0", aggregateversion=version)
    (offset,) = append(decided, "events", strange)
    what = f"{decided.topics.events} partition 0 offset {offset} cannot be "
    (violation,) = [violation for violation in decided.violations("state") if violation.startswith(what)]
    assert "the code knows no event bank_account.Borrowed" in violation
    settings = decided.settings.model_copy(update={"aggregates": "nowhere"})
    without_code = verify_in_process(plan_verify(decided.connection, decided.topics, settings))
    assert not [each for each in without_code.violations if str(each).startswith(what)]


def test_given_up_commands_are_counted(bank: TopicHarness) -> None:
    bank.send(*mixture(20))
    quietly(bank.plan(fail=["bank_account:0@3"]))
    report = verified(bank)
    assert (report.total("given_up"), report.violations) == (1, [])


def test_unreadable_records_are_found(decided: TopicHarness) -> None:
    rubbish: list[Kind] = ["events", "outcomes", "dead-letters"]
    for kind in rubbish:
        append(decided, kind, Record(0, 0, b"a", b"\xff"))
    assert kinds(decided) == set(rubbish)


Changes = dict[str, tuple[Kind, Callable[[list[Record]], object]]]


def swap(log: list[Record]) -> None:
    log[4], log[5] = log[5], log[4]


CHANGES: Changes = {
    "a dropped event": ("events", lambda log: log.pop(5)),
    "two events swapped": ("events", swap),
    "a forged version": ("events", change(5, aggregateversion=99)),
    "a wrong count": ("events", change(5, eventcount=2)),
    "another cause": ("events", change(5, causationid="x")),
    "a missing outcome": ("outcomes", lambda log: log.pop(9)),
    "two outcomes swapped": ("outcomes", swap),
    "an outcome with a forged version": ("outcomes", change(9, {"version": 99})),
    "a missing dead letter": ("dead-letters", lambda log: log.pop(1)),
}


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    "fault", sampled(CHANGES, "a dropped event", "a missing outcome", "a forged version")
)
def test_fault_in_topic_is_found(decided: TopicHarness, fault: str) -> None:
    kind, change = CHANGES[fault]
    rewrite(decided, kind, change)
    assert kinds(decided) != set()


def test_topic_written_again_is_clean(decided: TopicHarness) -> None:
    for kind in ("events", "outcomes", "dead-letters"):
        rewrite(decided, kind, lambda log: None)
    assert decided.violations() == []


def test_torn_command_is_found(connection: Connection, prefix: str, tmp_path: Path) -> None:
    floods = TopicHarness(connection, prefix, tmp_path, "awkward", package="awkward", root=TESTS)
    floods.send(*(command("awkward.Flood", "a", f"f{n}", {"count": 3}) for n in range(3)))
    quietly(floods.plan())
    assert floods.violations() == []
    rewrite(floods, "events", lambda log: log.pop(5))
    assert floods.violations() == [
        f"{floods.topics.events} partition 0 offset 3 is of command 1, whose events are missing from event 2 of 3 on"
    ]
