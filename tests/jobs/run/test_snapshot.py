"""A snapshot of a run: the shards that are rebuilt, and the reasons why partitions do not decide."""

from dataclasses import replace

from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.runs.snapshot import Rebuild, Snapshot


def partition(number: int) -> Partition:
    return Partition("counter", number)


def snapshot_of(*reports: OwnerReport, unowned: tuple[Partition, ...] = (), partitions: int = 2) -> Snapshot:
    return Snapshot(
        0.0,
        lags={partition(n): 0 for n in range(partitions)},
        reports={Partition(report.aggregate, report.partition): report for report in reports},
        unowned=unowned,
    )


def report(number: int, step: str, folding: FoldProgress | None = None) -> OwnerReport:
    return OwnerReport("counter", number, 0, 0, 1, step, folding)


def test_rebuild_sums_up_the_shards() -> None:
    snapshot = snapshot_of(
        report(0, "warm", FoldProgress(100, 50, 200)),
        report(1, "recover", FoldProgress(300, 20, 300)),
        report(2, "recover", FoldProgress(70, 70, 70)),  # its fold is complete
        report(3, "decide"),
    )
    assert snapshot.rebuild_progress() == Rebuild(2, 400, 14)


def test_nothing_to_fold_is_no_rebuild() -> None:
    assert (
        snapshot_of(report(0, "recover", FoldProgress(0, 0, 0)), report(1, "decide")).rebuild_progress()
        is None
    )


def test_deciding_owners_wait_for_nothing() -> None:
    assert snapshot_of(report(0, "decide"), report(1, "decide")).waiting_partitions() == {}


def test_each_wait_has_its_reason() -> None:
    snapshot = snapshot_of(
        report(0, "warm"), report(1, "pause"), unowned=(partition(0), partition(3)), partitions=4
    )
    assert snapshot.waiting_partitions() == {
        partition(0): "warm",
        partition(1): "pause",
        partition(2): "no report from its owner",
        partition(3): "no owner",
    }


def test_silent_owner_is_not_ready() -> None:
    snapshot = replace(
        snapshot_of(report(0, "decide"), report(1, "decide")), silent=frozenset({partition(1)})
    )
    assert snapshot.waiting_partitions() == {partition(1): "no report from its owner"}
