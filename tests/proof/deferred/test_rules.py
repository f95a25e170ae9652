"""Each rule for deferred commands, on its own: outcomes and entries that violate it, and correct records."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.deferrals import DeferralRules
from cqrs_cli.proof.deferred_log import DeferredEntry, DeferredLog
from cqrs_cli.proof.documents import digest_of
from cqrs_cli.proof.findings import DecidedRange, Findings
from cqrs_cli.proof.index_entries import OutcomeEntry
from cqrs_cli.proof.join import find_first_outcome
from cqrs_cli.proof.scope import Loss, Scope
from tests.proof.index_entries import OutcomeIndex, outcome_entry
from tests.support.commands import command

TOPIC = "T"
DEFERRAL = Deferral(TOPIC, 0, "a", "x", 5, 0, 0, 9, 1, "LATER", b"{}")


DEFERRED = outcome_entry("deferred", "LATER", due=9, attempt=1)
DEFERRED_AGAIN = outcome_entry("deferred", "LATER", deferredfrom="0/0", due=19, attempt=2)
RESUBMITTED = outcome_entry(deferredfrom="0/0")
CANCEL = outcome_entry("unchanged", type="cqrs.Cancel.way", cause="stop", target=(0, "x"))
RELEASE = outcome_entry("unchanged", type="cqrs.Release.way", cause="go", target=(0, "x"))
CANCELLED = outcome_entry("rejected", "CANCELLED", deferredfrom="0/0")
ENTRIES = {0: DeferredEntry(3, None, False, 9, 1)}
OTHER_COMMAND = "is of command 0, which has another subject or id"


def scope(loss: Loss | None = None) -> Scope:
    return Scope("way", "", 0, {}, 0, topic_id=TOPIC, loss=loss)


def findings_for(
    *outcomes: OutcomeEntry,
    entries: Mapping[Any, DeferredEntry] | None = None,
    commands: tuple[Record, ...] = (),
    loss: Loss | None = None,
    deleted: int = 0,
    without_index: bool = False,
) -> list[tuple[str, int, str]]:
    """Return the findings for the outcomes of the commands from 0 on. `without_index`: the index has no outcomes."""
    findings = Findings()
    index = OutcomeIndex() if without_index else OutcomeIndex(enumerate(outcomes))
    rules = DeferralRules(scope(loss), DecidedRange(99, 99, first_outcome=deleted), index, findings)
    for offset, outcome in enumerate(outcomes):
        rules.check_outcome(offset, None, outcome)
    rules.compare_entries(entries or {}, commands)
    return [(finding.log, finding.offset, finding.problem) for finding in findings.listed]


@pytest.mark.parametrize(
    "outcomes",
    [
        (DEFERRED, RESUBMITTED),
        (DEFERRED, DEFERRED_AGAIN, RESUBMITTED),
        (DEFERRED, CANCEL, CANCELLED),
        (DEFERRED, CANCEL, RELEASE, CANCELLED),
        (DEFERRED, CANCEL, outcome_entry("failed", "HANDLER_ERROR", deferredfrom="0/0")),
        (DEFERRED, RELEASE, RESUBMITTED),
        (DEFERRED, outcome_entry("failed", "TOO_LARGE", deferredfrom="0/0", cause=None, subject=None)),
    ],
)
def test_correct_outcomes_have_no_findings(outcomes: tuple[OutcomeEntry, ...]) -> None:
    assert findings_for(*outcomes) == []
    assert findings_for(*outcomes, without_index=True) == []


@pytest.mark.parametrize(
    ("outcomes", "problem"),
    [
        (
            (DEFERRED, outcome_entry("duplicate", deferredfrom="0/0")),
            "is duplicate, but has a deferredfrom",
        ),
        (
            (DEFERRED, outcome_entry("failed", "NOT_RELEASED", deferredfrom="0/0")),
            "is NOT_RELEASED, but has a deferredfrom",
        ),
        (
            (DEFERRED, outcome_entry(deferredfrom="0/x")),
            "says deferredfrom '0/x', which is not of this partition",
        ),
        (
            (DEFERRED, outcome_entry(deferredfrom="0/٣")),
            "says deferredfrom '0/٣', which is not of this partition",
        ),
        (
            (DEFERRED, outcome_entry(deferredfrom="1/0")),
            "says deferredfrom '1/0', which is not of this partition",
        ),
        ((DEFERRED, CANCELLED), "is CANCELLED, though nobody has cancelled command 0"),
        ((DEFERRED, RELEASE, CANCELLED), "is CANCELLED, though nobody has cancelled command 0"),
        ((DEFERRED, CANCEL, RESUBMITTED), "is accepted, though command 0 was cancelled"),
        (
            (DEFERRED, RESUBMITTED, RESUBMITTED),
            "is of command 0, which is not deferred any more, or never was",
        ),
        ((DEFERRED, outcome_entry(deferredfrom="0/0", cause="y")), OTHER_COMMAND),
        ((DEFERRED, outcome_entry(deferredfrom="0/0", subject="b")), OTHER_COMMAND),
        (
            (DEFERRED, outcome_entry(deferredfrom="0/0", fingerprint=6)),
            "does not have the fingerprint of command 0",
        ),
        ((DEFERRED, outcome_entry("accepted", target=(0, "x"))), "is accepted, but has a target"),
        (
            (DEFERRED, outcome_entry("rejected", "GAVE_UP", deferredfrom="0/0", attempt=20)),
            "gave up after 20 attempts, command 0 had 1",
        ),
        ((DEFERRED, DEFERRED_AGAIN, DEFERRED_AGAIN), "is LATER at attempt 2 instead of 3"),
        (
            (DEFERRED, outcome_entry("unchanged", type="cqrs.Cancel.unchanged")),
            "does not name the deferred command that it cancels or releases",
        ),
        (
            (DEFERRED, outcome_entry(deferredfrom="0/0", correlation="c")),
            "does not have the correlationid of command 0",
        ),
    ],
)
def test_faulty_outcome_is_named(outcomes: tuple[OutcomeEntry, ...], problem: str) -> None:
    findings = [finding for finding in findings_for(*outcomes, entries=ENTRIES) if finding[0] == "outcomes"]
    assert findings == [("outcomes", 10, problem)]


@pytest.mark.parametrize(("deleted", "loss_offset"), [(5, None), (6, None), (0, 6), (0, 5), (3, 6), (6, 3)])
def test_deleted_outcomes_are_not_checked(deleted: int, loss_offset: int | None) -> None:
    """The commands' outcomes were deleted, or the commands are before an accepted loss."""
    loss = None if loss_offset is None else Loss(loss_offset, 0, 0)
    is_deleted = deleted > 5 or (loss_offset or 0) > 5
    cancel = outcome_entry("unchanged", type="cqrs.Cancel.way", target=(5, "x"))
    findings = findings_for(
        cancel,
        outcome_entry(deferredfrom="0/5"),
        entries={5: DeferredEntry(3, 7, False, 9, 1)},
        loss=loss,
        deleted=deleted,
    )
    beginnings = [(log, offset, problem.partition(" command 5")[0]) for log, offset, problem in findings]
    deferred_finding = [] if loss else [("deferred", 3, "says that")]
    assert beginnings == (
        []
        if is_deleted
        else [
            ("outcomes", 10, "is about"),
            ("outcomes", 10, "is of"),
            ("deferred", 3, "is of"),
            *deferred_finding,
        ]
    )


def test_loss_excuses_other_topics() -> None:
    assert findings_for(outcome_entry(deferredfrom="1/0"), loss=Loss(0, 0, 0)) == []


@pytest.mark.parametrize(
    ("outcomes", "entry", "finding"),
    [
        ((DEFERRED,), None, ("commands", 0, "is deferred, but is missing in the deferred topic")),
        (
            (DEFERRED,),
            DeferredEntry(3, None, True, 9, 1),
            ("deferred", 3, "says that command 0 is cancelled"),
        ),
        (
            (DEFERRED, CANCEL),
            DeferredEntry(3, None, False, 0, 1),
            ("deferred", 3, "says that command 0 is not cancelled"),
        ),
        (
            (DEFERRED, RESUBMITTED),
            DeferredEntry(3, None, False, 9, 1),
            ("deferred", 3, "is of command 0, which is not deferred"),
        ),
        (
            (DEFERRED,),
            DeferredEntry(3, 7, False, 9, 1),
            ("deferred", 3, "says that command 0 was resubmitted at 7: that record is another command"),
        ),
        ((DEFERRED,), DeferredEntry(3, None, False, 9, 1), None),
        ((DEFERRED, CANCEL), DeferredEntry(3, None, True, 0, 1), None),
        ((DEFERRED, CANCEL, RELEASE), DeferredEntry(3, None, True, 0, 1), None),
    ],
)
def test_deferred_topic_matches_the_outcomes(
    outcomes: Any, entry: DeferredEntry | None, finding: Any
) -> None:
    assert findings_for(*outcomes, entries={0: entry} if entry else {}) == ([finding] if finding else [])


@pytest.mark.parametrize(("deferred_from", "is_correct"), [(b"0/0", True), (b"0/1", False), (None, False)])
def test_entry_points_to_its_resubmitted_command(deferred_from: bytes | None, is_correct: bool) -> None:
    value = command("way.Go", "a", "x").value or b""
    resubmitted_value = (
        value if deferred_from is None else value[:-1] + b',"deferredfrom":"%s"}' % deferred_from
    )
    resubmitted, other = (
        Record(7, 0, b"a", resubmitted_value, [*HEADERS]),
        Record(6, 0, b"a", b"?", [*HEADERS]),
    )
    entries = {0: DeferredEntry(3, 7, False, 9, 1, digest_of(value))}
    assert (findings_for(DEFERRED, entries=entries, commands=(other, resubmitted)) == []) is is_correct


def test_log_keeps_the_last_entry() -> None:
    """An offset in a topic that was deleted does not count."""
    findings = Findings()
    log = DeferredLog(scope(), OutcomeIndex(), findings, findings)
    resubmitted = msgspec.structs.replace(DEFERRAL, resubmitted_offset=7, resubmitted_topic_id=TOPIC)
    in_other_topic = msgspec.structs.replace(resubmitted, offset=1, resubmitted_topic_id="U", cancelled=True)
    entries = (DEFERRAL, resubmitted, in_other_topic)
    log.read([Record(3, 0, b"?", b"{}")])
    ((kind, offset, problem),) = findings.listed
    assert (kind, offset) == ("deferred", 3) and problem.startswith("is not a deferred command: ")
    log.read(
        [
            Record(3, 0, b"?", b"{}"),
            *(
                Record(offset, 0, entry.key.encode(), entry.value())
                for offset, entry in enumerate(entries, 4)
            ),
        ]
    )
    assert {offset: entry[:3] for offset, entry in log.entries.items()} == {
        0: (5, 7, False),
        1: (6, None, True),
    }
    log.read([Record(9, 0, DEFERRAL.key.encode(), None)])
    assert list(log.entries) == [1] and findings.count == 2


def test_first_outcome_may_be_later() -> None:
    index: Any = OutcomeIndex({3: DEFERRED})
    assert [find_first_outcome(index, command) for command in (0, 3, 4)] == [
        (3, DEFERRED),
        (3, DEFERRED),
        None,
    ]
