"""The installed command, used as a user and a CI job use it: all numbers that it prints must agree."""

import os
import signal
from collections import Counter
from typing import Any

import pytest

from tests.support.project import Project, await_decided, bank_command

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

EXPECTED = {"accepted": 700, "unchanged": 50, "rejected": 150, "duplicate": 50, "failed": 50}


def halves() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return 950 commands in two halves. Their outcomes have every status but `failed`."""
    open_commands = [bank_command("Open", f"a-{n}", {"owner": "ann"}) for n in range(100)]
    other_open_commands = [bank_command("Open", f"c-{n}", {"owner": "bob"}) for n in range(50)]
    deposits = [bank_command("Deposit", f"a-{n % 100}", {"amount": 1}) for n in range(500)]
    first = [
        *open_commands,
        *other_open_commands,
        *(bank_command("Close", f"c-{n}") for n in range(50)),
        *deposits[:250],
    ]
    second = [
        *deposits[250:],
        *(bank_command("Close", f"c-{n}") for n in range(50)),
        *(bank_command("Withdraw", f"a-{n}", {"amount": 1000}) for n in range(100)),
        *(bank_command("Deposit", f"a-{n}", {"amount": 1}, expectedversion="99") for n in range(50)),
        *open_commands[:50],
    ]
    return first, second


def check_results(project: Project) -> None:
    """Check that each record has one outcome, and that the log and the shards have the same state."""
    outcomes = project.outcomes()
    assert Counter(outcome["data"]["status"] for outcome in outcomes) == EXPECTED
    assert len({outcome["id"] for outcome in outcomes}) == 1000
    replayed = project.json("replay", "bank_account")
    assert (replayed["aggregates"], replayed["events"]) == (150, 700)
    status = project.json("status", "bank_account", "--digest")
    assert status["aggregates"]["bank_account"]["digest"] == replayed["digest"]
    assert status["lag"] == 0
    assert project.json("show", "bank_account", "a-7")["state"]["balance"] == 5


def test_a_thousand_commands_have_expected_outcomes(project: Project) -> None:
    assert {topic["result"] for topic in project.json("init", "bank_account")["topics"]} == {"created"}
    for half in halves():
        project.send(half)
    project.send_malformed(50)
    summary = project.json("run", "bank_account", "--once")
    assert {status: summary[status] for status in EXPECTED} == EXPECTED
    assert (summary["commands"], summary["events"]) == (1000, 700)
    check_results(project)
    assert project.json("run", "bank_account", "--once")["commands"] == 0


@pytest.mark.covers("one-outcome")
def test_a_killed_run_loses_nothing(project: Project) -> None:
    """The installed program decides each of 1,000 commands once, despite a SIGKILL in the middle."""
    project.cqrs("init", "bank_account")
    first, second = halves()
    project.send(first)
    with project.running("run", "bank_account", "--quiet") as run:
        await_decided(project, len(first), ["bank_account"])
        project.send(second)
        os.killpg(run.pid, signal.SIGKILL)
    project.send_malformed(50)
    project.cqrs("run", "bank_account", "--once")
    check_results(project)
