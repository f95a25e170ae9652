"""The progress of a rebuild, and its result, for users and for programs."""

import pytest

from cqrs_cli.cli.render.rebuild import rebuild_result, rebuilding_text
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.rebuild.build import ShardSize
from cqrs_cli.deciding.rebuild.rebuild import RebuildProgress, RebuiltShard
from tests.support.results import lines_of

REBUILT_SHARDS = {
    Partition("order", 1): RebuiltShard(ShardSize(1, 2_000_000), True),
    Partition("order", 0): RebuiltShard(ShardSize(1_200, 500_000), False),
    Partition("counter", 0): RebuiltShard(ShardSize(1, 4_096), False),
}


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (RebuildProgress(0, 0, 0.0), f"rebuilding {'─' * 24} 0%, 0 records a second"),
        (
            RebuildProgress(500, 2000, 2.0),
            f"rebuilding {'━' * 6}{'─' * 18} 25%, 250 records a second, 6 s left",
        ),
        (RebuildProgress(2000, 2000, 4.0), f"rebuilding {'━' * 24} 100%, 500 records a second, nearly done"),
    ],
)
def test_progress_has_rate_and_remaining_time(progress: RebuildProgress, text: str) -> None:
    assert rebuilding_text(progress) == text


def test_shards_are_summed_for_people() -> None:
    assert lines_of(rebuild_result(REBUILT_SHARDS, 3.21)) == [
        "counter: 1 shard with 1 aggregate, 0.0 MB",
        "order: 2 shards with 1,201 aggregates, 2.5 MB",
        "rebuilt in 3.2 s",
    ]


def test_programs_get_each_shard() -> None:
    document = rebuild_result(REBUILT_SHARDS, 3.21).document
    assert document["seconds"] == 3.21
    assert [(shard["aggregate"], shard["partition"], shard["in_use"]) for shard in document["shards"]] == [
        ("counter", 0, False),
        ("order", 0, False),
        ("order", 1, True),
    ]
    assert document["shards"][1] == {
        "aggregate": "order",
        "partition": 0,
        "aggregates": 1200,
        "bytes": 500_000,
        "in_use": False,
    }
