"""`cqrs repartition`: its preview, its effect, and the refused calls."""

import pytest

from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_dry_run_says_what_moves(decided: Cqrs) -> None:
    document = decided("repartition", "bank_account", "--partitions", "6", "--dry-run", "-o", "json").document
    assert (document["dry_run"], document["from"], document["to"]) == (True, 2, 6)
    assert [(partition["partition"], partition["children"]) for partition in document["partitions"]] == [
        (0, [2, 4]),
        (1, [3, 5]),
    ]
    assert decided("init", "bank_account", "--partitions", "2").status == 0


def test_dry_run_is_a_table(decided: Cqrs) -> None:
    title, header, *rows, making = decided(
        "repartition", "bank_account", "--partitions", "4", "--dry-run"
    ).out.splitlines()
    assert title == "dry run: bank_account: 2 → 4 partitions"
    assert header.split()[:3] == ["partition", "target", "partitions"] and len(rows) == 2
    assert making.startswith("folding all shards: ")


def test_same_call_again_completes(decided: Cqrs) -> None:
    first, again = (
        decided("repartition", "bank_account", "--partitions", "4", "-o", "json") for _ in range(2)
    )
    assert first.document == again.document
    assert first.document == {
        "aggregate": "bank_account",
        "dry_run": False,
        "from": 2,
        "to": 4,
        "left": [0, 1, 2, 3],
    }
    text = decided("repartition", "bank_account", "--partitions", "4").out
    assert (
        text
        == "bank_account: 2 → 4 partitions: added to the topics; the next run splits the partitions: cqrs run\n"
    )


def test_status_and_doctor_say_what_is_left(decided: Cqrs) -> None:
    decided("repartition", "bank_account", "--partitions", "4")
    status = decided("status", "bank_account", "-o", "json").document["aggregates"]["bank_account"]
    assert [partition["growth"] for partition in status["partitions"]] == [
        "settles",
        "settles",
        "waits",
        "waits",
    ]
    assert "settles, waits" in decided("status", "bank_account").out
    checks = decided("doctor", "-o", "json").document["checks"]
    (growth,) = [check for check in checks if check["name"] == "topics" and "grows to 4" in check["detail"]]
    assert (growth["status"], growth["hint"]) == ("warn", "the next run splits: cqrs run")


@pytest.mark.parametrize(
    ("partitions", "says"), [("1", "Kafka cannot remove partitions"), ("3", "3 is not a multiple")]
)
def test_other_numbers_end_with_2(decided: Cqrs, partitions: str, says: str) -> None:
    result = decided("repartition", "bank_account", "--partitions", partitions, "--dry-run")
    assert (result.status, result.out) == (2, "") and says in result.err


def test_unchecked_homes_end_with_3(decided: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    result = decided("repartition", "bank_account", "--partitions", "4")
    assert result.status == 3 and 'with partitioner = "none"' in result.err


def test_init_names_the_command(decided: Cqrs) -> None:
    """The hint of `init` repeats the options of the call."""
    assert decided("repartition", "bank_account", "--partitions", "4").status == 0
    result = decided("init", "bank_account", "--partitions", "8")
    assert (
        result.status == 3
        and "cqrs repartition -b " in result.err
        and "bank_account --partitions 8" in result.err
    )
