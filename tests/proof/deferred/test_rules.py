"""Each rule for deferred commands, on its own: outcomes and entries that violate it, and correct records."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.deferrals import DeferralRules
from cqrs_cli.proof.deferred_log import DeferredLog, Entry
from cqrs_cli.proof.documents import digest_of
from cqrs_cli.proof.findings import DecidedRange, Findings
from cqrs_cli.proof.join import find_first_outcome
from cqrs_cli.proof.scope import Loss, Scope
from cqrs_cli.proof.traces import OutcomeTrace
from tests.proof.traces import Outcomes, outcome
from tests.support.commands import command

TOPIC = "T"
PARKED = Deferral(TOPIC, 0, "a", "x", 5, 0, 0, 9, 1, "LATER", b"{}")


DEFERRED = outcome("deferred", "LATER", due=9, attempt=1)
TWICE = outcome("deferred", "LATER", deferredfrom="0/0", due=19, attempt=2)
AGAIN = outcome(deferredfrom="0/0")
CANCEL = outcome("unchanged", type="cqrs.Cancel.way", cause="stop", target=(0, "x"))
RELEASE = outcome("unchanged", type="cqrs.Release.way", cause="go", target=(0, "x"))
ENDED = outcome("rejected", "CANCELLED", deferredfrom="0/0")
KEPT = {0: Entry(3, None, False, 9, 1)}
OTHER = "is of command 0, which has another subject or id"


def scope(loss: Loss | None = None) -> Scope:
    return Scope("way", "", 0, {}, 0, topic_id=TOPIC, loss=loss)


def judged(
    *outcomes: OutcomeTrace,
    entries: Mapping[Any, Entry] | None = None,
    commands: tuple[Record, ...] = (),
    loss: Loss | None = None,
    deleted: int = 0,
    unknown: bool = False,
) -> list[tuple[str, int, str]]:
    """Return the findings for the outcomes of the commands from 0 on. With `unknown`, the index has no outcomes."""
    findings = Findings()
    index = Outcomes() if unknown else Outcomes(enumerate(outcomes))
    rules = DeferralRules(scope(loss), DecidedRange(99, 99, first_outcome=deleted), index, findings)
    for offset, one in enumerate(outcomes):
        rules.check_outcome(offset, None, one)
    rules.compare_entries(entries or {}, commands)
    return [(one.log, one.offset, one.problem) for one in findings.listed]


@pytest.mark.parametrize(
    "outcomes",
    [
        (DEFERRED, AGAIN),
        (DEFERRED, TWICE, AGAIN),
        (DEFERRED, CANCEL, ENDED),
        (DEFERRED, CANCEL, RELEASE, ENDED),
        (DEFERRED, CANCEL, outcome("failed", "HANDLER_ERROR", deferredfrom="0/0")),
        (DEFERRED, RELEASE, AGAIN),
        (DEFERRED, outcome("failed", "TOO_LARGE", deferredfrom="0/0", cause=None, subject=None)),
    ],
)
def test_what_owners_do_is_no_fault(outcomes: tuple[OutcomeTrace, ...]) -> None:
    assert judged(*outcomes) == []
    assert judged(*outcomes, unknown=True) == []


@pytest.mark.parametrize(
    ("outcomes", "what"),
    [
        (
            (DEFERRED, outcome("duplicate", deferredfrom="0/0")),
            "is duplicate, and says that it is of a deferred command",
        ),
        (
            (DEFERRED, outcome("failed", "NOT_RELEASED", deferredfrom="0/0")),
            "is NOT_RELEASED, and says that it is of a deferred command",
        ),
        ((DEFERRED, outcome(deferredfrom="0/x")), "says deferredfrom '0/x', which is not of this partition"),
        ((DEFERRED, outcome(deferredfrom="0/٣")), "says deferredfrom '0/٣', which is not of this partition"),
        ((DEFERRED, outcome(deferredfrom="1/0")), "says deferredfrom '1/0', which is not of this partition"),
        ((DEFERRED, ENDED), "is CANCELLED, though nobody has cancelled command 0"),
        ((DEFERRED, RELEASE, ENDED), "is CANCELLED, though nobody has cancelled command 0"),
        ((DEFERRED, CANCEL, AGAIN), "is accepted, though command 0 was cancelled"),
        ((DEFERRED, AGAIN, AGAIN), "is of command 0, which is not deferred any more, or never was"),
        ((DEFERRED, outcome(deferredfrom="0/0", cause="y")), OTHER),
        ((DEFERRED, outcome(deferredfrom="0/0", subject="b")), OTHER),
        (
            (DEFERRED, outcome(deferredfrom="0/0", fingerprint=6)),
            "does not have the fingerprint of command 0",
        ),
        ((DEFERRED, outcome("accepted", target=(0, "x"))), "is accepted, and has a target"),
        (
            (DEFERRED, outcome("rejected", "GAVE_UP", deferredfrom="0/0", attempt=20)),
            "gave up after 20 attempts, command 0 had 1",
        ),
        ((DEFERRED, TWICE, TWICE), "is LATER at attempt 2 instead of 3"),
        (
            (DEFERRED, outcome("unchanged", type="cqrs.Cancel.unchanged")),
            "does not name the deferred command that it is about",
        ),
        (
            (DEFERRED, outcome(deferredfrom="0/0", correlation="c")),
            "does not have the correlationid of command 0",
        ),
    ],
)
def test_faulty_outcome_is_named(outcomes: tuple[OutcomeTrace, ...], what: str) -> None:
    found = [one for one in judged(*outcomes, entries=KEPT) if one[0] == "outcomes"]
    assert found == [("outcomes", 10, what)]


@pytest.mark.parametrize(("deleted", "at"), [(5, None), (6, None), (0, 6), (0, 5), (3, 6), (6, 3)])
def test_what_was_deleted_is_not_judged(deleted: int, at: int | None) -> None:
    """The commands' outcomes were deleted, or the commands are before an accepted loss."""
    loss = None if at is None else Loss(at, 0, 0)
    forgotten = deleted > 5 or (at or 0) > 5
    about = outcome("unchanged", type="cqrs.Cancel.way", target=(5, "x"))
    found = judged(
        about, outcome(deferredfrom="0/5"), entries={5: Entry(3, 7, False, 9, 1)}, loss=loss, deleted=deleted
    )
    places = [(kind, at, what.partition(" command 5")[0]) for kind, at, what in found]
    said = [] if loss else [("deferred", 3, "says that")]
    assert places == (
        []
        if forgotten
        else [("outcomes", 10, "is about"), ("outcomes", 10, "is of"), ("deferred", 3, "is of"), *said]
    )


def test_loss_excuses_other_topics() -> None:
    assert judged(outcome(deferredfrom="1/0"), loss=Loss(0, 0, 0)) == []


@pytest.mark.parametrize(
    ("outcomes", "entry", "found"),
    [
        ((DEFERRED,), None, ("commands", 0, "is deferred, and the deferred topic does not have it")),
        ((DEFERRED,), Entry(3, None, True, 9, 1), ("deferred", 3, "says that command 0 is cancelled")),
        (
            (DEFERRED, CANCEL),
            Entry(3, None, False, 0, 1),
            ("deferred", 3, "says that command 0 is not cancelled"),
        ),
        (
            (DEFERRED, AGAIN),
            Entry(3, None, False, 9, 1),
            ("deferred", 3, "is of command 0, which is not deferred"),
        ),
        (
            (DEFERRED,),
            Entry(3, 7, False, 9, 1),
            ("deferred", 3, "says that command 0 stands again at 7: there it waits for nobody"),
        ),
        ((DEFERRED,), Entry(3, None, False, 9, 1), None),
        ((DEFERRED, CANCEL), Entry(3, None, True, 0, 1), None),
        ((DEFERRED, CANCEL, RELEASE), Entry(3, None, True, 0, 1), None),
    ],
)
def test_topic_has_what_is_open(outcomes: Any, entry: Entry | None, found: Any) -> None:
    assert judged(*outcomes, entries={0: entry} if entry else {}) == ([found] if found else [])


@pytest.mark.parametrize(("place", "waits"), [(b"0/0", True), (b"0/1", False), (None, False)])
def test_command_stands_where_its_entry_says(place: bytes | None, waits: bool) -> None:
    plain = command("way.Go", "a", "x").value or b""
    said = plain if place is None else plain[:-1] + b',"deferredfrom":"%s"}' % place
    again, other = Record(7, 0, b"a", said, [*HEADERS]), Record(6, 0, b"a", b"?", [*HEADERS])
    entries = {0: Entry(3, 7, False, 9, 1, digest_of(plain))}
    assert (judged(DEFERRED, entries=entries, commands=(other, again)) == []) is waits


def test_log_keeps_the_last_entry() -> None:
    """An offset in a topic that was deleted does not count."""
    findings = Findings()
    log = DeferredLog(scope(), Outcomes(), findings, findings)
    said = msgspec.structs.replace(PARKED, resubmitted_offset=7, resubmitted_topic=TOPIC)
    elsewhere = msgspec.structs.replace(said, offset=1, resubmitted_topic="U", cancelled=True)
    entries = (PARKED, said, elsewhere)
    log.read([Record(3, 0, b"?", b"{}")])
    ((kind, at, what),) = findings.listed
    assert (kind, at) == ("deferred", 3) and what.startswith("is not a deferred command: ")
    log.read(
        [
            Record(3, 0, b"?", b"{}"),
            *(Record(at, 0, one.key.encode(), one.value()) for at, one in enumerate(entries, 4)),
        ]
    )
    assert {offset: one[:3] for offset, one in log.entries.items()} == {0: (5, 7, False), 1: (6, None, True)}
    log.read([Record(9, 0, PARKED.key.encode(), None)])
    assert list(log.entries) == [1] and findings.count == 2


def test_first_outcome_may_be_later() -> None:
    index: Any = Outcomes({3: DEFERRED})
    assert [find_first_outcome(index, command) for command in (0, 3, 4)] == [
        (3, DEFERRED),
        (3, DEFERRED),
        None,
    ]
