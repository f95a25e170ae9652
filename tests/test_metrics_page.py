"""docs/metrics.md, the alerts and the dashboard name exactly the metrics that a run exposes."""

import json
import re
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cqrs_cli.deciding.measures import STEPS
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.runs.endpoint import ALIVE_TIMEOUT, FRESH_TIMEOUT, Endpoint
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from tests.support import ROOT
from tests.support.commands import increment_commands
from tests.support.driver import FakeSparkContext, owner_task, run_driver
from tests.support.harness import TopicHarness
from tests.support.progress import owner_report, process_progress, run_snapshot

if TYPE_CHECKING:
    from cqrs_cli.status.metrics import ProjectionMetrics

PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(cqrs_\w+)` \| (\w+) \| (?:`(\w+)`)? ?\|", re.MULTILINE)
_RUN_SECTION, _, _PROJECTION_SECTION = PAGE.partition("\n## Projections\n")
ROWS = _ROW.findall(_RUN_SECTION)
PROJECTION_ROWS = _ROW.findall(_PROJECTION_SECTION)
ALERTS = yaml.safe_load((ROOT / "compose/alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "compose/grafana.json").read_text(encoding="utf-8"))

#: A metric's name in an expression. PromQL's functions and labels do not begin with `cqrs_`.
_METRIC = re.compile(r"\bcqrs_\w+")

#: The suffixes of a histogram's series.
_SERIES = re.compile(r"_(bucket|sum|count)$")


def families(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return type and labels of each metric of an exposition, without the labels of every partition."""
    metrics = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels}
        metrics[name] = family.type, labels - {"aggregate", "partition", "le"}
    return metrics


def exposed_labels() -> dict[str, set[str]]:
    """Return the labels of every metric of a snapshot in which everything is measured."""
    metrics, registry = Metrics(), CollectorRegistry()
    metrics.snapshot = replace(run_snapshot(owner_report()), process_progress=process_progress())
    registry.register(metrics)
    registry.register(projection_metrics())
    return {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}


def projection_metrics() -> "ProjectionMetrics":
    """Return the metrics of a projection of two partitions, one of which lags by three events."""
    from cqrs_cli.following.projections.plan import ProjectionProgress
    from cqrs_cli.status.metrics import ProjectionMetrics

    lagging, caught_up = (EventPartition("order", "order.events", number) for number in (0, 1))
    metrics = ProjectionMetrics("recent_orders")
    metrics.snapshot = ProjectionProgress(0.0, {lagging: 7, caught_up: 5}, {lagging: 10, caught_up: 5})
    return metrics


def process_metrics() -> Metrics:
    """Return the metrics of a run that has process managers only."""
    metrics = Metrics()
    metrics.snapshot = Snapshot(0.0, process_progress=process_progress())
    return metrics


def expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [
        variable["query"]["query"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ]
    return [*(rule["expr"] for rule in ALERTS), *panels, *variables]


@pytest.mark.kafka
def test_page_has_the_metrics_of_a_run(counters: TopicHarness) -> None:
    """A real run exposes the metrics over HTTP."""
    counters.send(*increment_commands(5))
    endpoint: Endpoint[Snapshot] = Endpoint(Metrics(), "127.0.0.1", 0)
    try:
        endpoint.update(
            replace(
                run_driver(FakeSparkContext(owner_task), counters.plan()), process_progress=process_progress()
            )
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as answer:
            exposed = families(answer.read().decode())
    finally:
        endpoint.close()
    assert {name: (type, {label} - {""}) for name, type, label in ROWS} == exposed


def test_page_has_the_metrics_of_processes() -> None:
    """The metrics include general metrics of the run. The run is ready when each partition is claimed."""
    metrics, registry = process_metrics(), CollectorRegistry()
    registry.register(metrics)
    exposed = families(generate_latest(registry).decode())
    run_metrics = {"cqrs_ready", "cqrs_observed_timestamp_seconds", "cqrs_run_info", "cqrs_submissions_total"}
    documented = {name: (type, {label} - {""}) for name, type, label in ROWS}
    assert exposed == {
        name: entry
        for name, entry in documented.items()
        if name.startswith("cqrs_process_") or name in run_metrics
    }
    assert "with the metrics of its process managers and of the run." in " ".join(PAGE.split())
    assert registry.get_sample_value("cqrs_ready") == 1
    metrics.snapshot = Snapshot(0.0, process_progress=process_progress(claimed=False))
    assert registry.get_sample_value("cqrs_ready") == 0


def test_page_has_the_metrics_of_projections() -> None:
    metrics, registry = projection_metrics(), CollectorRegistry()
    registry.register(metrics)
    exposed = families(generate_latest(registry).decode())
    documented = {name: (type, {label} - {""}) for name, type, label in PROJECTION_ROWS}
    assert documented == {name: (type, labels - {"projection"}) for name, (type, labels) in exposed.items()}
    labels = {"projection": "recent_orders", "aggregate": "order", "partition": "0"}
    assert registry.get_sample_value("cqrs_projection_lag_events", labels) == 3
    assert registry.get_sample_value("cqrs_projection_position", labels) == 7
    assert registry.get_sample_value("cqrs_projection_ready") == 1
    assert metrics.snapshot is not None
    metrics.snapshot = replace(metrics.snapshot, is_shadow=True, resubmissions=2)
    assert registry.get_sample_value("cqrs_projection_submissions_total") == 3
    assert registry.get_sample_value("cqrs_projection_ready") == 0


@pytest.mark.parametrize("expression", expressions())
def test_expressions_use_existing_metrics(expression: str) -> None:
    labels_of = exposed_labels()
    names = _METRIC.findall(expression)
    assert set(names) <= set(labels_of)
    assert names or expression == 'up{job="cqrs"} == 0'
    for name, matchers in re.findall(r"(cqrs_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r'(\w+)\s*[=!]~?"', matchers)) <= labels_of[name]
    assert expression.count("(") == expression.count(")")


def test_every_metric_is_on_the_dashboard() -> None:
    on_dashboard = {_SERIES.sub("", name) for text in expressions() for name in _METRIC.findall(text)}
    assert {_SERIES.sub("", name) for name, _, _ in ROWS} == {
        name for name in on_dashboard if "_projection_" not in name
    }
    assert {
        name for name, _, _ in PROJECTION_ROWS if not name.endswith(("_info", "_seconds"))
    } <= on_dashboard


def test_alerts_are_complete_and_documented() -> None:
    names = [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert {"alert", "expr", "labels", "annotations"} <= set(rule) <= {*rule, "for"}
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "ticket")
    table = PAGE.partition("| alert | fires when |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == names
    advice = OPERATIONS.partition("## What to do at each alert")[2].partition("\n## ")[0]
    assert re.findall(r"^\*\*`(\w+)`\*\*", advice, re.MULTILINE) == names


def test_alerts_use_available_labels() -> None:
    for rule in ALERTS:
        grouping = re.search(r"sum by \(([\w, ]+)\)", rule["expr"])
        names = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        available = (
            {"instance", "aggregate", "partition"} if grouping is None else set(grouping[1].split(", "))
        )
        assert names <= available, rule["alert"]


def test_page_names_steps_and_times() -> None:
    assert [step for step in STEPS if f"`{step}`" not in PAGE] == []
    assert f"within {ALIVE_TIMEOUT:.0f} s" in PAGE and f"within {FRESH_TIMEOUT:.0f} s" in PAGE


def test_panels_do_not_overlap() -> None:
    cells: dict[tuple[int, int], Any] = {}
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert x < 24 and cells.setdefault((x, y), panel["id"]) == panel["id"]
