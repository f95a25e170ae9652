"""The metrics of a look at a run."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from cqrs_cli.deciding.measures import Folding
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.following.processes.plan import ProcessProgress, Subscription
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS, Histogram

AT = {"aggregate": "counter", "partition": "1"}
HERE = Partition("counter", 1)


def report(step: str = "decide", folding: Folding | None = None) -> OwnerReport:
    latency, batches = Histogram(LATENCY_BOUNDS), Histogram(BATCH_BOUNDS)
    for seconds in (0.001, 0.02, 7200.0):
        latency.add(seconds)
    batches.add(3)
    return OwnerReport(
        *HERE,
        0,
        0,
        1,
        step,
        folding,
        {"EXPIRED": 2},
        (latency.counts, latency.total),
        (batches.counts, batches.total),
        aborted=4,
        restarts=5,
        shard_bytes=4096,
    )


def served(snapshot: Snapshot | None) -> CollectorRegistry:
    metrics, registry = Metrics(), CollectorRegistry()
    metrics.snapshot = snapshot
    registry.register(metrics)
    return registry


def look(one: OwnerReport, unowned: tuple[Partition, ...] = ()) -> Snapshot:
    counts = {HERE: Counts(accepted=3, rejected=2, events=6)}
    return Snapshot(0.0, counts, 7, lags={HERE: 7}, reports={HERE: one}, unowned=unowned, submission=2)


def reacting(claimed: bool = True) -> ProcessProgress:
    """A process that has 5 events before it."""
    subscription = Subscription("checkout", EventPartition("order", "order.events", 0))
    return ProcessProgress(
        0.0, {subscription: 95}, {subscription: 100}, frozenset({subscription} if claimed else ())
    )


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
    value = served(look(report("warm", Folding(10, 5, 30)), unowned=(HERE,))).get_sample_value
    assert value("cqrs_rebuild_remaining_records", AT) == 25
    assert (value("cqrs_owner_step", {**AT, "step": "warm"}), value("cqrs_ready")) == (1, 0)
    assert value("cqrs_owner_step", {**AT, "step": "decide"}) == 0
    assert value("cqrs_partition_owned", AT) == 0


def test_nothing_is_served_before_the_first_look() -> None:
    assert {metric.name for metric in served(None).collect()} == {"cqrs_run", "cqrs_ready"}
    assert served(None).get_sample_value("cqrs_ready") == 0
