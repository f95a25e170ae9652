"""The one list of columns: each column is shown as text, as JSON and to Prometheus."""

import io
from typing import Any

import pytest
from prometheus_client.core import Metric as Family
from rich.console import Console

from cqrs_cli.cli.live.model import DisplayOptions
from cqrs_cli.cli.live.screen import render_screen
from cqrs_cli.cli.render.status import status_text
from cqrs_cli.status.columns import (
    COLUMNS,
    Row,
    StatusColumn,
    StatusMetric,
    View,
    partition_document,
    partition_row,
    total_row,
)
from cqrs_cli.status.document import status_document
from cqrs_cli.status.metrics import metric_families
from cqrs_cli.status.partition import PARTITION_KINDS, PartitionStatus
from tests.support.statuses import (
    decided_partition,
    projected_partition,
    status_snapshot,
    subscribed_partition,
)

#: All columns, and one new column, whose definition takes one line.
COLUMNS_WITH_HEIGHT = (
    *COLUMNS,
    StatusColumn(
        "height", lambda status: 100 + status.partition, "height", metric=StatusMetric("height", "So high.")
    ),
)

STATUSES = [decided_partition(1), subscribed_partition(2), projected_partition(3)]


def text_of(columns: Any, *partitions: PartitionStatus) -> str:
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(status_text(status_snapshot(*(partitions or STATUSES)), "lmdb", columns=columns))
    return captured.get()


def samples(families: Any) -> dict[str, float]:
    metric_families: list[Family] = list(families)
    return {sample.name: sample.value for family in metric_families for sample in family.samples}


def test_new_column_is_in_text() -> None:
    headers = [line.split()[-1] for line in text_of(COLUMNS_WITH_HEIGHT).splitlines() if "lag" in line]
    assert headers == ["height"] * 3
    assert "height" not in text_of(COLUMNS)
    assert [number in text_of(COLUMNS_WITH_HEIGHT) for number in ("101", "102", "103")] == [True] * 3


def test_rare_column_is_shown_if_needed() -> None:
    """The total contains each text of the column once."""
    repartitioning = [
        decided_partition(1, repartitioning_stage="settles"),
        decided_partition(2, repartitioning_stage="waits"),
        decided_partition(3, repartitioning_stage="waits"),
    ]
    columns = [column for column in COLUMNS if column.name == "growth"]
    assert total_row("", [partition_row(status, columns) for status in repartitioning], columns).values == (
        "settles, waits",
    )
    assert "repartitioning" not in text_of(COLUMNS) and "repartitioning" in text_of(COLUMNS, *repartitioning)


def test_new_column_is_in_json() -> None:
    document = status_document(
        status_snapshot(*STATUSES),
        "lmdb",
        partitions=lambda statuses: [partition_document(status, COLUMNS_WITH_HEIGHT) for status in statuses],
    )
    partitions = [document[key][name]["partitions"] for key, name in SECTIONS.items()]
    assert [partition["height"] for (partition,) in partitions] == [101, 102, 103]


SECTIONS = {"aggregates": "bank", "processes": "checkout", "projections": "recent"}


def test_new_column_is_in_prometheus() -> None:
    values = samples(metric_families(STATUSES, COLUMNS_WITH_HEIGHT))
    names = ("cqrs_height", "cqrs_process_height", "cqrs_projection_height")
    assert [values[name] for name in names] == [101, 102, 103]


def test_new_column_is_in_cqrs_top() -> None:
    screen = render_screen(status_snapshot(*STATUSES), DisplayOptions(), (), "", 200, 40, COLUMNS_WITH_HEIGHT)
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(screen)
    assert "height" in captured.get()


@pytest.mark.parametrize(
    ("status", "keys"),
    [
        (
            decided_partition(),
            "partition start end position lag owner growth trial deciding waits_for state hidden_by",
        ),
        (
            subscribed_partition(),
            "topic partition start end position lag owner stopped_at last_error waits_for",
        ),
        (projected_partition(), "topic partition end position lag owner last_error rebuild_error"),
    ],
)
def test_documents_keep_their_keys(status: PartitionStatus, keys: str) -> None:
    assert list(partition_document(status)) == keys.split()


def test_owner_has_the_members_of_its_claim() -> None:
    owner = partition_document(decided_partition())["owner"]
    counts = {
        "accepted": 10,
        "unchanged": 0,
        "rejected": 0,
        "deferred": 0,
        "duplicate": 0,
        "failed": 0,
        "events": 0,
        "transactions": 0,
    }
    claim = {"run": "a", "since": "1970-01-01T00:00:01.000Z", "stopped": False, "silent_seconds": None}
    assert owner == {**claim, "commands": 10, **counts, "last": None, "commit_ms": 0.0, "per_second": 0.0}
    assert partition_document(subscribed_partition())["owner"] == claim
    assert partition_document(projected_partition())["owner"] == "p"


def test_metrics_are_named_by_kind() -> None:
    names = {family.name for family in metric_families(STATUSES)}
    assert names == {
        *("cqrs_lag_commands", "cqrs_partition_owned", "cqrs_commands", "cqrs_events", "cqrs_commit_seconds"),
        *("cqrs_process_position", "cqrs_process_lag_events", "cqrs_process_partition_owned"),
        *("cqrs_projection_position", "cqrs_projection_lag_events"),
    }


def test_unknown_values_have_no_samples() -> None:
    assert "cqrs_lag_commands" not in samples(metric_families([decided_partition(lag=None)]))


def test_every_header_is_filled_in() -> None:
    for kind in PARTITION_KINDS:
        assert all("{" not in column.header.format(**kind.placeholder_values) for column in COLUMNS)


def test_totals_add_known_values() -> None:
    columns = [column for column in COLUMNS if column.name in ("lag", "oldest", "owner", "since")]
    rows = [Row("", (3, None, "a", "x")), Row("", (4, 7, "b", "y")), Row("", (None, 2, "a", "x"))]
    assert total_row("total", rows, columns) == Row("total", (7, 7, "2 owners", None))
    assert total_row("total", rows[:1], columns) == Row("total", (3, None, "a", None))
    assert total_row("total", [Row("", (1, 1, None, None)), *rows[:1]], columns).values[2] == "a"
    assert total_row("total", [Row("", (1, 1, None, None)), *rows], columns).values[2] == "2 owners"
    assert total_row("total", [], columns) == Row("total", (None, None, None, None))


def test_every_column_is_shown_somewhere() -> None:
    hidden_columns = [
        column.name
        for column in COLUMNS
        if not column.header and View.JSON not in column.view and not column.metric
    ]
    assert hidden_columns == []


@pytest.mark.parametrize(
    ("width", "row"), [(60, "1,234,000 567 a"), (80, "1,234,567 1,234,000 567 a none here")]
)
def test_narrow_tables_have_whole_numbers(width: int, row: str) -> None:
    status = decided_partition(end=1_234_567, position=1_234_000, lag=567, store="lmdb", name="bank_account")
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(status_text(status_snapshot(status), "lmdb", width=width))
    assert captured.get().splitlines()[1].split() == ["bank_account", "0", *row.split()]
