"""The metrics of a run's snapshot."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.progress import PARTITION, owner_report, process_progress, run_snapshot

LABELS = {"aggregate": "counter", "partition": "1"}


def registry_with(snapshot: Snapshot | None) -> CollectorRegistry:
    metrics, registry = Metrics(), CollectorRegistry()
    metrics.snapshot = snapshot
    registry.register(metrics)
    return registry


def test_process_managers_are_counted() -> None:
    labels = {"process": "checkout", "aggregate": "order", "partition": "0"}
    value = registry_with(
        replace(run_snapshot(owner_report()), process_progress=process_progress())
    ).get_sample_value
    assert value("cqrs_process_position", labels) == 95
    assert value("cqrs_process_lag_events", labels) == 5
    assert (value("cqrs_process_partition_owned", labels), value("cqrs_ready")) == (1, 1)
    value = registry_with(
        replace(run_snapshot(owner_report()), process_progress=process_progress(claimed=False))
    ).get_sample_value
    assert (value("cqrs_process_partition_owned", labels), value("cqrs_ready")) == (0, 0)


def test_claims_and_logs_are_counted() -> None:
    value = registry_with(run_snapshot(owner_report())).get_sample_value
    assert value("cqrs_commands_total", {**LABELS, "status": "accepted"}) == 3
    assert value("cqrs_commands_total", {**LABELS, "status": "failed"}) == 0
    assert value("cqrs_events_total", LABELS) == 6
    assert value("cqrs_lag_commands", LABELS) == 7
    assert (value("cqrs_partition_owned", LABELS), value("cqrs_ready")) == (1, 1)
    assert value("cqrs_submissions_total") == 3


def test_measurements_of_owners_are_served() -> None:
    value = registry_with(run_snapshot(owner_report())).get_sample_value
    assert value("cqrs_commands_refused_total", {**LABELS, "reason": "EXPIRED"}) == 2
    assert value("cqrs_commands_refused_total", {**LABELS, "reason": "TOO_LARGE"}) == 0
    assert value("cqrs_transactions_aborted_total", LABELS) == 4
    assert value("cqrs_owner_restarts_total", LABELS) == 5
    assert value("cqrs_shard_bytes", LABELS) == 4096


def test_histograms_cumulate() -> None:
    value = registry_with(run_snapshot(owner_report())).get_sample_value
    buckets = [
        value("cqrs_command_latency_seconds_bucket", {**LABELS, "le": le})
        for le in ("0.005", "0.025", "3600", "+Inf")
    ]
    assert buckets == [1, 2, 2, 3]
    assert value("cqrs_command_latency_seconds_count", LABELS) == 3
    assert value("cqrs_batch_commands_sum", LABELS) == 3
    assert value("cqrs_batch_commands_bucket", {**LABELS, "le": "5"}) == 1


def test_rebuild_is_not_ready() -> None:
    value = registry_with(
        run_snapshot(owner_report("warm", FoldProgress(10, 5, 30)), unowned=(PARTITION,))
    ).get_sample_value
    assert value("cqrs_rebuild_remaining_records", LABELS) == 25
    assert (value("cqrs_owner_step", {**LABELS, "step": "warm"}), value("cqrs_ready")) == (1, 0)
    assert value("cqrs_owner_step", {**LABELS, "step": "decide"}) == 0
    assert value("cqrs_partition_owned", LABELS) == 0


def test_values_start_with_the_first_snapshot() -> None:
    assert {metric.name for metric in registry_with(None).collect()} == {"cqrs_run", "cqrs_ready"}
    assert registry_with(None).get_sample_value("cqrs_ready") == 0
