"""`cqrs repartition`: its preview, its effect, and the refused calls."""

import pytest

from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_dry_run_says_what_moves(decided: Cqrs) -> None:
    said = decided("repartition", "bank_account", "--partitions", "6", "--dry-run", "-o", "json").document
    assert (said["dry_run"], said["from"], said["to"]) == (True, 2, 6)
    assert [(one["partition"], one["children"]) for one in said["partitions"]] == [(0, [2, 4]), (1, [3, 5])]
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
    said = decided("status", "bank_account", "-o", "json").document["aggregates"]["bank_account"]
    assert [one["growth"] for one in said["partitions"]] == ["settles", "settles", "waits", "waits"]
    assert "settles, waits" in decided("status", "bank_account").out
    checks = decided("doctor", "-o", "json").document["checks"]
    (growth,) = [one for one in checks if one["name"] == "topics" and "grows to 4" in one["detail"]]
    assert (growth["status"], growth["hint"]) == ("warn", "the next run splits: cqrs run")


@pytest.mark.parametrize(
    ("partitions", "says"), [("1", "Kafka cannot remove partitions"), ("3", "3 is not a multiple")]
)
def test_other_numbers_end_with_2(decided: Cqrs, partitions: str, says: str) -> None:
    said = decided("repartition", "bank_account", "--partitions", partitions, "--dry-run")
    assert (said.status, said.out) == (2, "") and says in said.err


def test_unchecked_homes_end_with_3(decided: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    said = decided("repartition", "bank_account", "--partitions", "4")
    assert said.status == 3 and 'with partitioner = "none"' in said.err


def test_init_names_the_command(decided: Cqrs) -> None:
    """The hint of `init` repeats the options of the call."""
    assert decided("repartition", "bank_account", "--partitions", "4").status == 0
    said = decided("init", "bank_account", "--partitions", "8")
    assert (
        said.status == 3 and "cqrs repartition -b " in said.err and "bank_account --partitions 8" in said.err
    )
