"""The columns of a partition's status, in tables, in JSON and as Prometheus metrics.

A new column needs only an entry in `COLUMNS`, and a new value also an attribute of `PartitionStatus`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from operator import attrgetter
from typing import Any, NamedTuple

from cqrs_cli.column import Column
from cqrs_cli.status import cells
from cqrs_cli.status.cells import (
    all_shards,
    count_getter,
    largest,
    rate_getter,
    rate_text,
    shard_or_store,
    sum_known,
    time_text,
)
from cqrs_cli.status.partition import (
    AGGREGATE,
    PARTITION_KINDS,
    PROCESS,
    PROJECTION,
    PartitionKind,
    PartitionStatus,
)


class View(Flag):
    """Where a column is shown: in the table of `cqrs status`, in the table of `cqrs top`, and in JSON."""

    STATUS = auto()
    TOP = auto()
    JSON = auto()


class StatusMetric(NamedTuple):
    """The Prometheus metric of a column. `PartitionKind.prefix` precedes its name: `cqrs_` + `commands`.

    `name` and `help` may contain placeholders, such as `{participle}`, for texts that depend on the kind of partition
    (`PartitionKind.placeholder_values`).
    """

    name: str
    help: str
    kinds: tuple[PartitionKind, ...] = PARTITION_KINDS
    is_counter: bool = False
    #: For a value that is a mapping: the label whose values are the keys. Each key has a sample.
    key_label: str = ""


@dataclass(frozen=True, slots=True)
class StatusColumn(Column[PartitionStatus]):
    """A column of a partition's status, with its Prometheus metric if it has one.

    As in `Column`, the value is the attribute `name` of the status, unless another getter is given.
    """

    left_aligned: bool = False
    kinds: tuple[PartitionKind, ...] = PARTITION_KINDS  # the kinds of partitions that have this value
    view: View = View.STATUS | View.TOP | View.JSON
    #: Combines the values of several partitions for a total; None: the total has an empty cell.
    combine: Callable[[list[Any]], Any] | None = None
    metric: StatusMetric | None = None
    sort_key: str = ""  # the key that sorts the table of `cqrs top` by this column
    is_rare: bool = False  # True: a table omits the column if no row has a value
    #: A narrow screen first hides the columns with the highest rank. 0: never hidden.
    hide_rank: int = 0

    def value_of(self, row: PartitionStatus) -> Any:
        """Return the value; None for a kind of partition that is not in `kinds`."""
        return Column.value_of(self, row) if row.kind in self.kinds else None


_CLAIMED = (AGGREGATE, PROCESS)  # their owners write claims
_AGGREGATES = (AGGREGATE,)
_EVENT_READERS = (PROCESS, PROJECTION)  # they read events, not commands
_STATUS, _TOP, _JSON = View.STATUS, View.TOP, View.JSON
_METRIC_ONLY = View(0)  # neither in a table nor in JSON

_POSITION = StatusMetric("position", "The offset of the next event to be {participle}.", _EVENT_READERS)
_LAG = StatusMetric(
    "lag_{unit}", "{Unit} that wait to be {participle}; an upper bound, as offsets have holes."
)
_OWNED = StatusMetric("partition_owned", "1 if the run has claimed the partition.", _CLAIMED)
_COMMANDS = StatusMetric("commands", "Commands decided.", _AGGREGATES, is_counter=True, key_label="status")
_EVENTS = StatusMetric("events", "Events written.", _AGGREGATES, is_counter=True)
_COMMIT_SECONDS = StatusMetric(
    "commit_seconds", "Seconds that the commits of transactions took.", _AGGREGATES, is_counter=True
)

# fmt: off
#: The columns, in the order of tables and documents.
COLUMNS: tuple[StatusColumn, ...] = (
    StatusColumn("topic", kinds=_EVENT_READERS),
    StatusColumn("partition"),
    StatusColumn("start", kinds=_CLAIMED),
    StatusColumn("end", None, "log end", cells.end_text, view=_STATUS | _JSON, hide_rank=3),
    StatusColumn("position", None, "{done} to", cells.position_text, view=_STATUS | _JSON, metric=_POSITION),
    StatusColumn("sent", rate_getter("sent"), "sent/s", rate_text, kinds=_CLAIMED, view=_TOP,
                 combine=sum_known, sort_key="s", hide_rank=2),
    StatusColumn("decided", rate_getter("done"), "{done}/s", rate_text, kinds=_CLAIMED, view=_STATUS | _TOP,
                 combine=sum_known, sort_key="d"),
    StatusColumn("rejected", rate_getter("rejected"), "rejected/s", rate_text, kinds=_AGGREGATES, view=_TOP,
                 combine=sum_known, sort_key="r", hide_rank=3),
    StatusColumn("lag", None, "lag", combine=sum_known, metric=_LAG, sort_key="l"),
    StatusColumn("oldest", attrgetter("oldest_age_ms"), "oldest", time_text, kinds=_AGGREGATES, view=_TOP,
                 combine=largest, sort_key="o", hide_rank=1),
    StatusColumn("latency", attrgetter("latency_ms"), "latency", time_text, kinds=_AGGREGATES, view=_TOP,
                 combine=largest, hide_rank=4),
    StatusColumn("transactions", rate_getter("transactions"), "tx/s", rate_text, kinds=_AGGREGATES, view=_TOP,
                 combine=sum_known, sort_key="t", hide_rank=5),
    StatusColumn("batch", rate_getter("batch"), "per tx", rate_text, kinds=_AGGREGATES, view=_TOP,
                 combine=largest, hide_rank=5),
    StatusColumn("commit", rate_getter("commit_ms"), "commit", time_text, kinds=_AGGREGATES, view=_TOP,
                 combine=largest, hide_rank=5),
    StatusColumn("owner", None, "owner", cells.owner_text, cells.owner_json, left_aligned=True,
                 combine=cells.common_owner),
    StatusColumn("growth", attrgetter("repartitioning_stage"), "repartitioning", kinds=_AGGREGATES,
                 combine=cells.distinct_texts, is_rare=True, hide_rank=2),
    StatusColumn("owned", attrgetter("is_owned"), kinds=_CLAIMED, view=_METRIC_ONLY, metric=_OWNED),
    StatusColumn("since", cells.owner_since, "since", kinds=_CLAIMED, view=_STATUS, hide_rank=5),
    StatusColumn("commands", count_getter("commands"), "commands", kinds=_AGGREGATES, view=_STATUS,
                 combine=sum_known, hide_rank=4),
    StatusColumn("verdicts", cells.decisions_by_status, kinds=_AGGREGATES, view=_METRIC_ONLY, metric=_COMMANDS),
    StatusColumn("events", count_getter("events"), kinds=_AGGREGATES, view=_METRIC_ONLY, metric=_EVENTS),
    StatusColumn("commit_seconds", cells.commit_seconds, kinds=_AGGREGATES, view=_METRIC_ONLY,
                 metric=_COMMIT_SECONDS),
    StatusColumn("trial", attrgetter("suspect_text"), kinds=_AGGREGATES),
    StatusColumn("deciding", cells.slow_command_json, kinds=_AGGREGATES),
    StatusColumn("stopped_at", kinds=(PROCESS,)),
    StatusColumn("last_error", cells.error_getter("last_error"), kinds=_EVENT_READERS),
    StatusColumn("rebuild_error", cells.error_getter("rebuild_error"), kinds=(PROJECTION,)),
    StatusColumn("waits_for", attrgetter("wait_reason"), kinds=_CLAIMED),
    StatusColumn("state", shard_or_store, "state", cells.shard_text, cells.shard_json, kinds=_AGGREGATES,
                 view=_STATUS | _JSON, combine=all_shards, hide_rank=1),
    StatusColumn("hidden_by", cells.hiding_transaction_json, kinds=_AGGREGATES),
)
# fmt: on


def _json_getters(
    kind: PartitionKind, columns: Sequence[StatusColumn]
) -> list[tuple[str, Callable[[PartitionStatus], Any]]]:
    """Return the name of each JSON member of a partition, and the function that returns its value."""
    return [
        (column.name, column.json or column.value or attrgetter(column.name))
        for column in columns
        if View.JSON in column.view and kind in column.kinds
    ]


#: Prepared, because the console describes 1,000 partitions once a second.
_JSON_GETTERS = {kind: _json_getters(kind, COLUMNS) for kind in PARTITION_KINDS}


def partition_document(
    status: PartitionStatus, columns: Sequence[StatusColumn] | None = None
) -> dict[str, Any]:
    """Return a partition's status as JSON. `columns`: by default `COLUMNS`."""
    kind = status.kind
    getters = _JSON_GETTERS[kind] if columns is None else _json_getters(kind, columns)
    return {name: value(status) for name, value in getters}


class Row(NamedTuple):
    """A row of a table: one partition, or the total of several partitions. `values` has a value for each column."""

    label: str
    values: tuple[Any, ...]


def partition_row(status: PartitionStatus, columns: Sequence[StatusColumn]) -> Row:
    """Return the row of a partition."""
    return Row(status.label, tuple(column.value_of(status) for column in columns))


def total_row(label: str, rows: Sequence[Row], columns: Sequence[StatusColumn]) -> Row:
    """Return the total of rows: each value is combined by its column's `combine`, else it is None."""
    values_by_column = [[row.values[number] for row in rows] for number in range(len(columns))]
    totals = (
        None if column.combine is None else column.combine(values)
        for column, values in zip(columns, values_by_column, strict=True)
    )
    return Row(label, tuple(totals))


def cell_texts(row: Row, columns: Sequence[StatusColumn], is_total: bool = False) -> Iterator[str]:
    """Yield the cells of a row after its label. In a total, the columns without `combine` are empty."""
    for column, value in zip(columns, row.values, strict=True):
        yield "" if is_total and column.combine is None else column.text(value)
