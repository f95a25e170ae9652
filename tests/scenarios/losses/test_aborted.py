"""Aborted records at the end of the commands: no loss if an owner passed them before retention deleted them."""

import pytest

from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import Process, owned, quietly, running
from tests.support.topic_loss import shorten
from tests.support.transactional_topic import abort
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def abort_five(harness: TopicHarness) -> int:
    """Append five aborted records and their marker to the commands. Return the log's end."""
    abort(harness.connection, harness.topics.commands, [b"?"] * 5)
    return harness.end("commands")


def goes_on(harness: TopicHarness) -> None:
    """Let retention delete all commands. Check that the next command is decided."""
    shorten(harness, "commands", harness.end("commands"))
    quietly(harness.plan())
    harness.send(*increments(1, first=5))
    quietly(harness.plan())
    assert [outcome.data.version for outcome in harness.outcomes()] == [1, 2, 3, 4, 5, 6]
    assert harness.violations() == []


@pytest.mark.covers("nothing-skipped")
def test_idle_owner_passes_aborted_records(decided: TopicHarness) -> None:
    with running(decided.plan(once=False)) as owner:
        end = abort_five(decided)
        eventually(lambda: decided.standing()[0] == end == 11)
        assert not owner.ended()
    goes_on(decided)


def test_run_once_passes_aborted_records(decided: TopicHarness) -> None:
    end = abort_five(decided)
    quietly(decided.plan())
    assert decided.standing()[0] == end
    goes_on(decided)


@pytest.mark.covers("nothing-skipped")
def test_stopping_passes_aborted_records(decided: TopicHarness) -> None:
    """Stopping a run commits an offset after aborted records, even if their owner was killed before."""
    plan = decided.plan(once=False)
    assert Process(plan, "recover.after:1:kill").killed()
    end = abort_five(decided)
    assert decided.standing()[0] == 5
    retire(plan)
    assert decided.standing()[0] == end
    goes_on(decided)


@pytest.mark.covers("nothing-skipped")
def test_stopping_passes_no_command(decided: TopicHarness) -> None:
    """Stopping a run commits no offset after an undecided command that follows aborted records."""
    abort_five(decided)
    decided.send(*increments(1, first=5))
    plan = decided.plan(once=False)
    assert Process(plan, "decide.before:1:kill").killed()
    retire(plan)
    offset, claim = decided.standing()
    assert offset == 5 and claim is not None and claim.attempt == TERMINAL
    quietly(decided.plan())
    decided.check()


def test_unseen_aborted_records_must_be_accepted(decided: TopicHarness) -> None:
    """Deleted aborted records cannot be distinguished from commands. The error names the option to use."""
    end = abort_five(decided)
    shorten(decided, "commands", end)
    error = owned(decided.plan())
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "commands 5 to 10 were deleted" in error.message
    assert "if they were not of aborted transactions" in error.message
    assert error.hint.endswith(f"cqrs run --accept-loss counter:0@{end}")
    quietly(decided.plan(accept_loss=[f"counter:0@{end}"]))
    goes_on(decided)
