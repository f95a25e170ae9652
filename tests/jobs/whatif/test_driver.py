"""`whatif` with a real broker, and as a command."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.cli.render.queries.whatif import _label_text, whatif_result
from cqrs_cli.errors import ContradictionError, UsageError
from cqrs_cli.jobs.whatif import WhatifSummary, decide_partition_again, difference_rows, summarize
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.proof.whatif.difference import DifferenceKind, HistoryDifference
from cqrs_cli.registry import load_from
from cqrs_cli.scans.whatif.plan import WhatifPlan, plan_whatif
from cqrs_cli.scans.whatif.task import WhatifResult, simulate
from tests.support import AGGREGATES, ROOT
from tests.support.commands import command, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.project import Project
from tests.support.results import lines_of

MakePlan = Callable[..., WhatifPlan]


OVERDRAFT_CHANGE = ("amount > account.balance:", "amount > account.balance + 50:")


def write_draft(folder: Path, name: str, old: str, new: str) -> None:
    """Write a changed draft of the bank account into a project."""
    source = (AGGREGATES / "bank_account.py").read_text()
    assert old in source
    (folder / "drafts").mkdir(exist_ok=True)
    (folder / "drafts" / f"{name}.py").write_text(source.replace(old, new))


@pytest.fixture
def make_plan(bank: TopicHarness, tmp_path: Path) -> MakePlan:
    """A function that plans a simulation of accounts on two partitions, with code that allows an overdraft of 50."""
    bank.send(*mixed_commands(120))
    run_plan(bank.plan())
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    write_draft(tmp_path, "lending", *OVERDRAFT_CHANGE)
    settings = bank.settings.model_copy(update={"root": tmp_path})

    def plan(module: str = "drafts.lending", **options: Any) -> WhatifPlan:
        return plan_whatif(bank.connection, bank.topics, settings, module, **options)

    return plan


@pytest.mark.kafka
def test_partitions_are_simulated(make_plan: MakePlan, bank: TopicHarness) -> None:
    """Both simulations agree, and no topic has new records."""
    ends = [bank.stable_end(kind, partition) for kind in KINDS for partition in (0, 1)]
    summaries, other = (
        [decide_partition_again(make_plan(), partition) for partition in (0, 1)] for _ in range(2)
    )
    assert summaries == other
    summary = summarize(summaries, 1.0)
    assert (summary.commands, summary.skipped_commands, summary.incomplete_partitions) == (120, 0, [])
    assert (
        summary.differing_decisions
        >= summary.counts["outcome", "rejected BUSINESS_RULE OVERDRAWN", "accepted"]
        > 0
    )
    same = [decide_partition_again(make_plan("aggregates.bank_account"), partition) for partition in (0, 1)]
    assert [(difference.error, dict(difference.counts)) for difference in same] == [(None, {})] * 2
    assert ends == [bank.stable_end(kind, partition) for kind in KINDS for partition in (0, 1)]


@pytest.mark.kafka
def test_differences_are_rows(make_plan: MakePlan) -> None:
    differences = list(simulate(make_plan(), WhatifResult(0)))
    (lines,) = difference_rows(iter(differences))
    documents = [json.loads(line) for line in lines.column(0).to_pylist()]
    assert [(row.get("offset"), row["subject"], row["kind"]) for row in documents] == [
        (difference.offset, difference.subject, difference.kind) for difference in differences
    ]
    overdrawn = next(row for row in documents if row["was_result"] == "rejected BUSINESS_RULE OVERDRAWN")
    assert overdrawn["would"]["events"][0]["type"] == "bank_account.Withdrawn"


@pytest.mark.kafka
def test_period_is_limited_by_time(make_plan: MakePlan, bank: TopicHarness) -> None:
    records = bank.records("commands")
    since, until = records[20].timestamp, records[40].timestamp
    period = [record for record in records if since <= record.timestamp <= until]
    summary = decide_partition_again(make_plan("aggregates.bank_account", since=since, until=until), 0)
    assert (summary.error, summary.commands, dict(summary.counts)) == (None, len(period), {})
    assert decide_partition_again(make_plan(since=records[-1].timestamp + 60_000), 0).commands == 0
    assert decide_partition_again(make_plan(until=records[0].timestamp - 1), 0).commands == 0
    offsets = {0: records[20].offset}
    assert [decide_partition_again(make_plan(ends=offsets), number).commands for number in (0, 1)] == [20, 0]
    too_late = decide_partition_again(make_plan(ends={0: 10**6}), 0).error
    assert isinstance(too_late, UsageError) and "has no offset 1000000" in str(too_late)
    bank.send(command("bank_account.Deposit", "acc-1", "undecided", {"amount": 1}))
    assert sum(decide_partition_again(make_plan(), number).commands for number in (0, 1)) == 120


@pytest.mark.kafka
def test_unreadable_event_is_named(make_plan: MakePlan, bank: TopicHarness, tmp_path: Path) -> None:
    bank.send(command("bank_account.Deposit", "acc-1", "late", {"amount": 1}))
    run_plan(bank.plan())
    write_draft(tmp_path, "renamed", "Deposited", "PaidIn")
    partition = bank.partition_of("acc-1")
    last_timestamp = bank.records("commands", partition)[-1].timestamp
    difference = decide_partition_again(make_plan("drafts.renamed", since=last_timestamp), partition)
    assert isinstance(difference.error, ContradictionError)
    assert f"bank_account.events partition {partition} offset" in str(difference.error)
    assert "the code knows no event bank_account.Deposited" in str(difference.error)


def test_other_code_is_a_folder_module() -> None:
    with pytest.raises(UsageError, match=r"there is no module 'drafts.gone' in a folder of"):
        load_from("bank_account", "drafts.gone", ROOT)
    with pytest.raises(UsageError, match=r"write FOLDER\.NAME"):
        load_from("bank_account", "setup", ROOT)
    assert load_from("account", "aggregates.bank_account", ROOT).name == "account"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_command_writes_the_difference(project: Project, tmp_path: Path) -> None:
    bank = project.harness()
    bank.send(*mixed_commands(60), command("bank_account.Withdraw", "acc-0", "much", {"amount": 10**9}))
    run_plan(bank.plan())
    write_draft(project.folder, "sealed", 'code="OVERDRAWN"', 'code="TOO_MUCH"')
    options = ("--out", str(tmp_path / "difference"), "--master", "local[2]", "--fail-on", "decision>0.5%")
    whatif = project.start(
        "whatif", "bank_account", "--with", "drafts/sealed.py", "--since", "1d", *options, "-o", "json"
    )
    out, err = whatif.communicate(timeout=180)
    assert (whatif.returncode, json.loads(err.splitlines()[-1])["error"]["code"]) == (9, "RULE"), err
    summary = json.loads(out)
    assert summary["commands"] == 61, summary
    (difference,) = summary["differences"]
    assert (summary["commands"], summary["states"], summary["not_asked"]) == (61, 0, 0)
    assert (difference["was"], difference["would"]) == (
        "rejected BUSINESS_RULE OVERDRAWN",
        "rejected BUSINESS_RULE TOO_MUCH",
    )
    lines = "".join(file.read_text() for file in (tmp_path / "difference").glob("*.json"))
    rows = [json.loads(line) for line in lines.splitlines()]
    assert len(rows) == summary["differing"] == difference["count"] > 0
    rule = {"rule": "decision>0.5%", "count": len(rows), "of": 61, "exceeded": True}
    assert summary["rules"] == [rule]
    assert {row["id"] for row in rows} >= {"much"}


def test_differences_are_printed_as_text() -> None:
    difference = HistoryDifference(
        "outcome", "accepted", "unchanged", 0, 7, "a", "1", "bank_account.Close", b"{}", b"{}" * 200
    )
    missing_state = HistoryDifference(
        "state", "exists", "absent", 0, None, "b", None, None, b'{"version":1}', b"null"
    )
    counts = Counter({missing_state.label: 1, difference.label: 1200})
    same: list[tuple[DifferenceKind, str]] = [
        ("outcome", "duplicate"),
        ("outcome", "rejected BUSINESS_RULE"),
        ("events", "accepted"),
    ]
    labels = [_label_text((kind, result, result)) for kind, result in same]
    assert labels == [
        "duplicate: of another decision",
        "rejected BUSINESS_RULE: another message",
        "accepted: other events",
    ]
    summary = WhatifSummary(
        2000, 3, 4, [], counts, {difference.label: [difference], missing_state.label: [missing_state]}, 2.0
    )
    assert lines_of(whatif_result("bank_account", "drafts.kept", summary, None)) == [
        "    1,200  accepted → unchanged",
        "           0@7  a  bank_account.Close",
        "             was   {}",
        f"             would {'{}' * 80}… 240 more characters",
        "           1,199 more are not shown: --out DIR writes all",
        "        1  would not exist",
        "           b",
        '             was   {"version":1}',
        "             would null",
        "not decided again, because workers died on them or they were given up: 4",
        "bank_account with drafts.kept: 2,000 commands decided again in 2.0 s, 1,200 with differences; 1 of 3 "
        "aggregates would end in a different state",
    ]
