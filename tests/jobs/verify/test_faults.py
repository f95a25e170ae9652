"""Each fault written into real topics is reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.jobs.verify.driver import verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.scans.verify.plan import plan_verify
from tests.jobs.verify.verification import edit_record, verify, violated_topic_kinds
from tests.support import ROOT
from tests.support.commands import command, mixed_commands
from tests.support.foreign_records import append_records, changed_record, claim_topics, rewrite_topic
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.sampling import sample_cases

TESTS = ROOT / "tests"
pytestmark = pytest.mark.kafka


def test_repeated_event_is_found(decided_bank: TopicHarness) -> None:
    (offset,) = append_records(decided_bank, "events", decided_bank.records("events")[3])
    (violation,) = decided_bank.violations()
    assert violation.startswith(f"{decided_bank.topics.events} partition 0 offset {offset} is of command ")


def test_repeated_outcome_is_found(decided_bank: TopicHarness) -> None:
    (offset,) = append_records(decided_bank, "outcomes", decided_bank.records("outcomes")[7])
    (violation,) = decided_bank.violations()
    assert violation.startswith(f"{decided_bank.topics.outcomes} partition 0 offset {offset} is of command ")


def test_event_without_command_is_found(decided_bank: TopicHarness) -> None:
    last = decided_bank.records("events")[-1]
    version = json.loads(last.value or b"")["aggregateversion"] + 1
    (offset,) = append_records(
        decided_bank, "events", changed_record(last, id="0/9999/0", aggregateversion=version)
    )
    assert decided_bank.violations() == [
        f"{decided_bank.topics.events} partition 0 offset {offset} is of command 9999, which is not decided yet"
    ]


def test_record_on_wrong_partition(decided_bank: TopicHarness) -> None:
    (event,) = append_records(decided_bank, "events", decided_bank.records("events", 0)[0], partition=1)
    (outcome,) = append_records(decided_bank, "outcomes", decided_bank.records("outcomes", 1)[0], partition=0)
    assert decided_bank.violations() == [
        f"{decided_bank.topics.outcomes} partition 0 offset {outcome} is of a command on partition 1",
        f"{decided_bank.topics.events} partition 1 offset {event} is of a command on partition 0",
    ]


@pytest.mark.covers("verifiable")
def test_event_that_code_cannot_read(decided_bank: TopicHarness) -> None:
    """An event that the code cannot read is reported once. Without the code it cannot be found."""
    last = decided_bank.records("events")[-1]
    version = json.loads(last.value or b"")["aggregateversion"] + 1
    unknown_event = changed_record(
        last, type="bank_account.Borrowed", id="0/9999/0", aggregateversion=version
    )
    (offset,) = append_records(decided_bank, "events", unknown_event)
    location = f"{decided_bank.topics.events} partition 0 offset {offset} cannot be "
    (violation,) = [
        violation for violation in decided_bank.violations("state") if violation.startswith(location)
    ]
    assert "the code knows no event bank_account.Borrowed" in violation
    settings = decided_bank.settings.model_copy(update={"aggregates": "nowhere"})
    without_code = verify_in_process(plan_verify(decided_bank.connection, decided_bank.topics, settings))
    assert not [violation for violation in without_code.violations if str(violation).startswith(location)]


def test_given_up_commands_are_counted(bank: TopicHarness) -> None:
    bank.send(*mixed_commands(20))
    run_plan(bank.plan(fail=["bank_account:0@3"]))
    report = verify(bank)
    assert (report.total("given_up"), report.violations) == (1, [])


def test_unreadable_records_are_found(decided_bank: TopicHarness) -> None:
    unreadable_kinds: list[Kind] = ["events", "outcomes", "dead-letters"]
    for kind in unreadable_kinds:
        append_records(decided_bank, kind, Record(0, 0, b"a", b"\xff"))
    assert violated_topic_kinds(decided_bank) == set(unreadable_kinds)


Changes = dict[str, tuple[Kind, Callable[[list[Record]], object]]]


def swap(log: list[Record]) -> None:
    log[4], log[5] = log[5], log[4]


CHANGES: Changes = {
    "a dropped event": ("events", lambda log: log.pop(5)),
    "two events swapped": ("events", swap),
    "a forged version": ("events", edit_record(5, aggregateversion=99)),
    "a wrong count": ("events", edit_record(5, eventcount=2)),
    "another cause": ("events", edit_record(5, causationid="x")),
    "a missing outcome": ("outcomes", lambda log: log.pop(9)),
    "two outcomes swapped": ("outcomes", swap),
    "an outcome with a forged version": ("outcomes", edit_record(9, {"version": 99})),
    "a missing dead letter": ("dead-letters", lambda log: log.pop(1)),
}


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    "fault", sample_cases(CHANGES, "a dropped event", "a missing outcome", "a forged version")
)
def test_fault_in_topic_is_found(decided_bank: TopicHarness, fault: str) -> None:
    kind, edit = CHANGES[fault]
    rewrite_topic(decided_bank, kind, edit)
    assert violated_topic_kinds(decided_bank) != set()


def test_rewritten_topic_is_clean(decided_bank: TopicHarness) -> None:
    for kind in ("events", "outcomes", "dead-letters"):
        rewrite_topic(decided_bank, kind, lambda log: None)
    assert decided_bank.violations() == []


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("claimed", "kind"),
    [
        ({"other_ids": ("lost", "")}, "events"),
        ({"other_ids": ("", "lost")}, "outcomes"),
        ({"deferred_id": "lost"}, "deferred"),
    ],
)
def test_topic_recreated_since_claim(decided_bank: TopicHarness, claimed: dict[str, Any], kind: str) -> None:
    """A restored topic with equal records has another id than the topic to which the owner has written."""
    claim_topics(decided_bank, **claimed)
    violations = decided_bank.violations()
    problem = f"was committed with another {kind} topic: this one was created since"
    assert len(violations) == 2 and all(violation.endswith(problem) for violation in violations)


def test_missing_event_of_command_is_found(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "awkward", package="awkward", root=TESTS)
    harness.send(*(command("awkward.Flood", "a", f"f{n}", {"count": 3}) for n in range(3)))
    run_plan(harness.plan())
    assert harness.violations() == []
    rewrite_topic(harness, "events", lambda log: log.pop(5))
    assert harness.violations() == [
        f"{harness.topics.events} partition 0 offset 3 is of command 1, of which only 2 of 3 events were found"
    ]
