"""The metrics of a run's snapshot."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.progress import HERE, look, reacting, report

AT = {"aggregate": "counter", "partition": "1"}


def served(snapshot: Snapshot | None) -> CollectorRegistry:
    metrics, registry = Metrics(), CollectorRegistry()
    metrics.snapshot = snapshot
    registry.register(metrics)
    return registry


def test_processes_are_counted() -> None:
    place = {"process": "checkout", "aggregate": "order", "partition": "0"}
    value = served(replace(look(report()), processes=reacting())).get_sample_value
    assert value("cqrs_process_position", place) == 95
    assert value("cqrs_process_lag_events", place) == 5
    assert (value("cqrs_process_partition_owned", place), value("cqrs_ready")) == (1, 1)
    value = served(replace(look(report()), processes=reacting(claimed=False))).get_sample_value
    assert (value("cqrs_process_partition_owned", place), value("cqrs_ready")) == (0, 0)


def test_claims_and_logs_are_counted() -> None:
    value = served(look(report())).get_sample_value
    assert value("cqrs_commands_total", {**AT, "status": "accepted"}) == 3
    assert value("cqrs_commands_total", {**AT, "status": "failed"}) == 0
    assert value("cqrs_events_total", AT) == 6
    assert value("cqrs_lag_commands", AT) == 7
    assert (value("cqrs_partition_owned", AT), value("cqrs_ready")) == (1, 1)
    assert value("cqrs_submissions_total") == 3


def test_owners_measures_are_served() -> None:
    value = served(look(report())).get_sample_value
    assert value("cqrs_commands_refused_total", {**AT, "reason": "EXPIRED"}) == 2
    assert value("cqrs_commands_refused_total", {**AT, "reason": "TOO_LARGE"}) == 0
    assert value("cqrs_transactions_aborted_total", AT) == 4
    assert value("cqrs_owner_restarts_total", AT) == 5
    assert value("cqrs_shard_bytes", AT) == 4096


def test_histograms_cumulate() -> None:
    value = served(look(report())).get_sample_value
    buckets = [
        value("cqrs_command_latency_seconds_bucket", {**AT, "le": le})
        for le in ("0.005", "0.025", "3600", "+Inf")
    ]
    assert buckets == [1, 2, 2, 3]
    assert value("cqrs_command_latency_seconds_count", AT) == 3
    assert value("cqrs_batch_commands_sum", AT) == 3
    assert value("cqrs_batch_commands_bucket", {**AT, "le": "5"}) == 1


def test_rebuild_is_not_ready() -> None:
    value = served(look(report("warm", FoldProgress(10, 5, 30)), unowned=(HERE,))).get_sample_value
    assert value("cqrs_rebuild_remaining_records", AT) == 25
    assert (value("cqrs_owner_step", {**AT, "step": "warm"}), value("cqrs_ready")) == (1, 0)
    assert value("cqrs_owner_step", {**AT, "step": "decide"}) == 0
    assert value("cqrs_partition_owned", AT) == 0


def test_nothing_is_served_before_the_first_look() -> None:
    assert {metric.name for metric in served(None).collect()} == {"cqrs_run", "cqrs_ready"}
    assert served(None).get_sample_value("cqrs_ready") == 0
