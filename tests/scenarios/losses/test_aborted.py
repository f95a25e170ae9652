"""Aborted records at the end of the commands: no loss if an owner passed them before retention deleted them."""

import pytest

from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error, running_owners
from tests.support.topic_loss import delete_records_before
from tests.support.transactional_topic import abort_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def abort_five(harness: TopicHarness) -> int:
    """Append five aborted records and their marker to the commands. Return the log's end."""
    abort_transaction(harness.connection, harness.topics.commands, [b"?"] * 5)
    return harness.stable_end("commands")


def check_next_command(harness: TopicHarness) -> None:
    """Let retention delete all commands. Check that the next command is decided."""
    delete_records_before(harness, "commands", harness.stable_end("commands"))
    run_plan(harness.plan())
    harness.send(*increment_commands(1, first=5))
    run_plan(harness.plan())
    assert [outcome.data.version for outcome in harness.outcomes()] == [1, 2, 3, 4, 5, 6]
    assert harness.violations() == []


@pytest.mark.covers("nothing-skipped")
def test_idle_owner_passes_aborted_records(decided_counters: TopicHarness) -> None:
    with running_owners(decided_counters.plan(once=False)) as owner:
        end = abort_five(decided_counters)
        eventually(lambda: decided_counters.position_and_claim()[0] == end == 11)
        assert not owner.has_ended()
    check_next_command(decided_counters)


def test_run_once_passes_aborted_records(decided_counters: TopicHarness) -> None:
    end = abort_five(decided_counters)
    run_plan(decided_counters.plan())
    assert decided_counters.position_and_claim()[0] == end
    check_next_command(decided_counters)


@pytest.mark.covers("nothing-skipped")
def test_stopping_passes_aborted_records(decided_counters: TopicHarness) -> None:
    """Stopping a run commits an offset beyond aborted records, even if the owner was killed before it passed them."""
    plan = decided_counters.plan(once=False)
    assert OwnerProcess(plan, "recover.after:1:kill").was_killed()
    end = abort_five(decided_counters)
    assert decided_counters.position_and_claim()[0] == 5
    retire(plan)
    assert decided_counters.position_and_claim()[0] == end
    check_next_command(decided_counters)


@pytest.mark.covers("nothing-skipped")
def test_stopping_passes_no_command(decided_counters: TopicHarness) -> None:
    """An undecided command follows the aborted records: stopping the run commits no offset beyond this command."""
    abort_five(decided_counters)
    decided_counters.send(*increment_commands(1, first=5))
    plan = decided_counters.plan(once=False)
    assert OwnerProcess(plan, "decide.before:1:kill").was_killed()
    retire(plan)
    offset, claim = decided_counters.position_and_claim()
    assert offset == 5 and claim is not None and claim.attempt == TERMINAL
    run_plan(decided_counters.plan())
    decided_counters.check()


def test_unseen_aborted_records_must_be_accepted(decided_counters: TopicHarness) -> None:
    """Deleted aborted records cannot be distinguished from commands. The error names the option to use."""
    end = abort_five(decided_counters)
    delete_records_before(decided_counters, "commands", end)
    error = run_plan_for_error(decided_counters.plan())
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "commands 5 to 10 were deleted" in error.message
    assert "unless they belonged to aborted transactions" in error.message
    assert error.hint.endswith(f"cqrs run --accept-loss counter:0@{end}")
    run_plan(decided_counters.plan(accept_loss=[f"counter:0@{end}"]))
    check_next_command(decided_counters)
