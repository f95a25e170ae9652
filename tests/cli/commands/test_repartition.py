"""`cqrs repartition`: its preview, its effect, and the refused calls."""

import pytest

from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_dry_run_names_child_partitions(cqrs_on_decisions: Cqrs) -> None:
    document = cqrs_on_decisions(
        "repartition", "bank_account", "--partitions", "6", "--dry-run", "-o", "json"
    ).document
    assert (document["dry_run"], document["from"], document["to"]) == (True, 2, 6)
    assert [(partition["partition"], partition["children"]) for partition in document["partitions"]] == [
        (0, [2, 4]),
        (1, [3, 5]),
    ]
    assert cqrs_on_decisions("init", "bank_account", "--partitions", "2").status == 0


def test_dry_run_is_a_table(cqrs_on_decisions: Cqrs) -> None:
    title, header, *rows, estimate = cqrs_on_decisions(
        "repartition", "bank_account", "--partitions", "4", "--dry-run"
    ).out.splitlines()
    assert title == "dry run: bank_account: 2 → 4 partitions"
    assert header.split()[:3] == ["partition", "child", "partitions"] and len(rows) == 2
    assert estimate.startswith("folding all shards: ")


def test_repeated_call_has_the_same_result(cqrs_on_decisions: Cqrs) -> None:
    first, second = (
        cqrs_on_decisions("repartition", "bank_account", "--partitions", "4", "-o", "json") for _ in range(2)
    )
    assert first.document == second.document
    assert first.document == {
        "aggregate": "bank_account",
        "dry_run": False,
        "from": 2,
        "to": 4,
        "left": [0, 1, 2, 3],
    }
    text = cqrs_on_decisions("repartition", "bank_account", "--partitions", "4").out
    assert (
        text
        == "bank_account: 2 → 4 partitions: added to the topics; the next run splits the partitions: cqrs run\n"
    )


def test_status_and_doctor_report_the_repartitioning(cqrs_on_decisions: Cqrs) -> None:
    cqrs_on_decisions("repartition", "bank_account", "--partitions", "4")
    status = cqrs_on_decisions("status", "bank_account", "-o", "json").document["aggregates"]["bank_account"]
    assert [partition["growth"] for partition in status["partitions"]] == [
        "settles",
        "settles",
        "waits",
        "waits",
    ]
    assert "settles, waits" in cqrs_on_decisions("status", "bank_account").out
    checks = cqrs_on_decisions("doctor", "-o", "json").document["checks"]
    (check,) = [
        check for check in checks if check["name"] == "topics" and "repartitioned to 4" in check["detail"]
    ]
    assert (check["status"], check["hint"]) == ("warn", "the next run splits: cqrs run")


@pytest.mark.parametrize(
    ("partitions", "message"), [("1", "Kafka cannot remove partitions"), ("3", "3 is not a multiple")]
)
def test_invalid_partition_counts_end_with_2(cqrs_on_decisions: Cqrs, partitions: str, message: str) -> None:
    result = cqrs_on_decisions("repartition", "bank_account", "--partitions", partitions, "--dry-run")
    assert (result.status, result.out) == (2, "") and message in result.err


def test_missing_partitioner_ends_with_3(cqrs_on_decisions: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    result = cqrs_on_decisions("repartition", "bank_account", "--partitions", "4")
    assert result.status == 3 and 'with partitioner = "none"' in result.err


def test_init_suggests_repartition(cqrs_on_decisions: Cqrs) -> None:
    """The hint of `init` repeats the options of the call."""
    assert cqrs_on_decisions("repartition", "bank_account", "--partitions", "4").status == 0
    result = cqrs_on_decisions("init", "bank_account", "--partitions", "8")
    assert (
        result.status == 3
        and "cqrs repartition -b " in result.err
        and "bank_account --partitions 8" in result.err
    )
