"""`cqrs verify` as a command: its document, its lines and its exit codes."""

import json
from pathlib import Path

import pytest

from benchmarks import verify as benchmark
from benchmarks.environment import Environment
from cqrs_cli.cli.render.verify import nothing_compared, verify_result
from cqrs_cli.jobs.verify.driver import VerifySummary
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.proof.findings import Report
from cqrs_cli.scans.verify.checkpoints import HEAD_FILE
from cqrs_cli.scans.verify.state import ShardComparison
from tests.jobs.verify.verification import run_cqrs
from tests.support.foreign_records import append_records
from tests.support.harness import TopicHarness
from tests.support.results import lines_of


def test_lagging_shard_is_printed() -> None:
    summary = VerifySummary({}, [], 0, {0: ShardComparison(behind=(0, 25)), 1: ShardComparison(7)}, 1.0)
    assert lines_of(verify_result("bank_account", summary))[1:] == [
        "1 of 2 shards compared: 7 aggregates",
        "partition 0: the shard lags, compared up to offset 0 of 25",
        "no violation",
    ]
    expected = {"aggregates": 0, "behind": {"offset": 0, "end": 25}}
    assert verify_result("bank_account", summary).document["compared"] == {
        "0": expected,
        "1": {"aggregates": 7},
    }


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 command, 1 outcome, 1 event, 1 dead letter, 1 aggregate in 1.0 s (1 command a second)"),
        (2, "2 commands, 2 outcomes, 2 events, 2 dead letters, 2 aggregates in 1.0 s (2 commands a second)"),
    ],
)
def test_count_of_one_is_singular(count: int, text: str) -> None:
    report = Report(count, count, count, count, count, {"commands": 1, "dead-letters": 2})
    summary = VerifySummary({0: report}, [], 0, {0: ShardComparison(count)}, 1.0)
    assert lines_of(verify_result("counter", summary)) == [
        f"counter: {text}",
        "deleted by retention: 1 command, 2 dead letters",
        f"1 of 1 shard compared: {text.split(', ')[4].split(' in ')[0]}",
        "no violation",
    ]


def test_empty_shards_count_as_uncompared() -> None:
    summary = VerifySummary(
        {}, [], 0, {0: ShardComparison(behind=(0, 25)), 1: ShardComparison(skip_reason="none")}, 1.0
    )
    assert nothing_compared(summary)
    assert not nothing_compared(summary._replace(comparisons={**summary.comparisons, 2: ShardComparison(7)}))
    assert not nothing_compared(summary._replace(comparisons={}))


@pytest.mark.program
def test_benchmark_reads_long_output(tmp_path: Path) -> None:
    """A fake module in the working directory replaces the command, because this directory comes first on the path."""
    document = {"commands": 1, "violation_count": 0, "seconds": 1.0, "violations": ["x" * 200_000]}
    (tmp_path / "cqrs_cli.py").write_text(f"print({json.dumps(document)!r})")
    assert benchmark._measure(Environment(tmp_path, Connection(""), 0), 1)["commands_per_s"] == 1


def test_given_up_commands_are_printed() -> None:
    summary = VerifySummary({0: Report(given_up=1), 1: Report(given_up=2)}, [], 0, {}, 1.0)
    assert "given up unread, their bytes are not kept: 3 commands" in lines_of(
        verify_result("counter", summary)
    )
    assert verify_result("counter", summary).document["given_up"] == 3


def test_new_findings_are_printed_separately() -> None:
    summary = VerifySummary(
        {0: Report(9, violation_count=3)}, [], 3, {}, 1.0, {0: Report(7, violation_count=2)}, {0: "so"}
    )
    assert "since the last verify: 2 commands, 1 violation" in lines_of(verify_result("counter", summary))
    document = verify_result("counter", summary).document
    assert (document["new"]["commands"], document["new"]["violation_count"]) == (2, 1)
    assert (document["violation_count"], document["proved_again"]) == (3, {"0": "so"})


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_clean_topics_exit_with_0(decided_bank: TopicHarness) -> None:
    result = run_cqrs(decided_bank, "verify", "bank_account", "--state", "-o", "json")
    assert (result.stderr, result.returncode) == ("", 0)
    document = json.loads(result.stdout)
    assert list(document) == [
        *("aggregate", "commands", "outcomes", "events", "dead_letters", "aggregates", "deleted"),
        *("accepted_losses", "given_up", "violations", "violation_count", "seconds", "compared"),
    ]
    assert [document[name] for name in ("commands", "outcomes", "violations")] == [300, 300, []]
    assert document["deleted"] == {"commands": 0, "outcomes": 0, "dead_letters": 0}
    assert (
        sum(comparison["aggregates"] for comparison in document["compared"].values())
        == document["aggregates"]
    )


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_topics_are_verified_without_code(decided_bank: TopicHarness) -> None:
    result = run_cqrs(
        decided_bank, "verify", "bank_account", "--incremental", "proved/", "-o", "json", with_code=False
    )
    assert (json.loads(result.stdout)["violations"], result.returncode) == ([], 0)
    assert (decided_bank.folder / "project" / "proved" / HEAD_FILE).is_file()
    result = run_cqrs(decided_bank, "verify", "bank_account", "--state", with_code=False)
    assert "there is no package 'aggregates' with aggregates in" in result.stderr


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_violations_exit_with_5(decided_bank: TopicHarness) -> None:
    (offset,) = append_records(decided_bank, "outcomes", decided_bank.records("outcomes")[7])
    result = run_cqrs(decided_bank, "verify", "bank_account")
    assert result.returncode == 5
    assert result.stdout.splitlines()[0].startswith(
        f"{decided_bank.topics.outcomes} partition 0 offset {offset} is of"
    )
    assert result.stdout.splitlines()[-1] == "1 violation"
    assert result.stderr == (
        "error: 1 violation in the topics of bank_account; "
        f"look at the first: cqrs tail bank_account outcomes --partition 0 --from {offset} -n 1\n"
    )
