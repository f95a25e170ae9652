"""`cqrs rebuild`: the shards of a machine without shards, and the refused calls."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs


@pytest.mark.kafka
def test_result_names_each_shard(cqrs_on_broker: Cqrs, tmp_path: Path, prefix: str) -> None:
    result = cqrs_on_broker("rebuild", "bank_account", "-o", "json")
    assert result.status == 0
    assert [
        (shard["aggregate"], shard["partition"], shard["aggregates"], shard["in_use"])
        for shard in result.document["shards"]
    ] == [("bank_account", 0, 0, False), ("bank_account", 1, 0, False)]
    shards = tmp_path / ".cqrs" / "state" / f"{prefix}bank_account"
    assert sorted(path.name for path in shards.iterdir()) == ["0", "1"]
    second_result = cqrs_on_broker("rebuild", "--state-dir", str(tmp_path / "elsewhere"), "bank_account")
    assert second_result.out.startswith("bank_account: 2 shards with 0 aggregates, ")
    assert (tmp_path / "elsewhere" / f"{prefix}bank_account" / "1" / "mark.json").exists()


@pytest.mark.kafka
def test_shards_for_a_repartitioning_are_named(cqrs_on_broker: Cqrs) -> None:
    result = cqrs_on_broker(
        "rebuild", "bank_account", "--partitions", "4", "--state-dir", "grown", "-o", "json"
    )
    assert [shard["partition"] for shard in result.document["shards"]] == [0, 1, 2, 3]
    refused_call = cqrs_on_broker("rebuild", "bank_account", "--partitions", "3")
    assert refused_call.status == 2 and "3 is not a multiple" in refused_call.err


def test_partitions_option_needs_one_aggregate(cqrs: Cqrs) -> None:
    result = cqrs("rebuild", "bank_account", "counter", "--partitions", "4")
    assert result.status == 2 and "--partitions needs one aggregate" in result.err


def test_memory_has_no_shards(cqrs: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "cqrs.toml").write_text('store = "memory"')
    result = cqrs("rebuild")
    assert (result.status, result.out) == (3, "")
    assert "there are no shards" in result.err


def test_unknown_aggregate_is_named(cqrs: Cqrs) -> None:
    result = cqrs("rebuild", "nothing")
    assert (result.status, result.out) == (2, "") and "nothing" in result.err
