"""All columns of a partition's status: as text, as JSON and for Prometheus. A new column needs only a line here."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, NamedTuple

from cqrs_cli.column import Column, row_document
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
    """The displays of a column: the table of `cqrs status`, the table of `cqrs top`, and JSON."""

    STATUS = auto()
    TOP = auto()
    JSON = auto()


class Metric(NamedTuple):
    """A metric, whose name is prefixed by the partition's kind. If a value is a mapping, each key is a sample.

    The kind also replaces placeholders such as `{passive}` in `name`, `help` and a column's header: see
    `PartitionKind.words`.
    """

    name: str
    help: str
    kinds: tuple[PartitionKind, ...] = PARTITION_KINDS
    counter: bool = False
    label: str = ""  # the label for the keys of a mapping


@dataclass(frozen=True, slots=True)
class StatusColumn(Column[PartitionStatus]):
    """A column of a partition's status, with its Prometheus metric if it has one."""

    left_aligned: bool = False
    kinds: tuple[PartitionKind, ...] = PARTITION_KINDS
    view: View = View.STATUS | View.TOP | View.JSON
    #: Combines the values of several partitions; None: the cell of a sum is empty.
    total: Callable[[list[Any]], Any] | None = None
    metric: Metric | None = None
    sort_key: str = ""  # in `cqrs top`, this key sorts the table by this column
    rare: bool = False  # hidden in a table in which no row has a value
    hide_rank: int = 0  # if the screen is narrow, the highest rank is hidden first; 0: never hidden

    def value_of(self, row: PartitionStatus) -> Any:
        """Return the value; None if the column does not apply to the kind of partition."""
        return Column.value_of(self, row) if row.kind in self.kinds else None


#: Kinds of partitions: with claims; with commands; with a reader of events.
_CLAIMED, _AGGREGATES, _EVENT_READERS = (AGGREGATE, PROCESS), (AGGREGATE,), (PROCESS, PROJECTION)
_STATUS, _TOP, _JSON = View.STATUS, View.TOP, View.JSON
_METRIC_ONLY = View(0)

_POSITION = Metric("position", "The offset of the next event to be {passive}.", _EVENT_READERS)
_LAG = Metric("lag_{unit}", "{Unit} that wait to be {passive}; an upper bound, as offsets have holes.")
_OWNED = Metric("partition_owned", "1 if the run has claimed the partition.", _CLAIMED)
_COMMANDS = Metric("commands", "Commands decided.", _AGGREGATES, counter=True, label="status")
_EVENTS = Metric("events", "Events written.", _AGGREGATES, counter=True)
_COMMIT_SECONDS = Metric(
    "commit_seconds", "Seconds that the commits of transactions took.", _AGGREGATES, counter=True
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
                 total=sum_known, sort_key="s", hide_rank=2),
    StatusColumn("decided", rate_getter("done"), "{done}/s", rate_text, kinds=_CLAIMED, view=_STATUS | _TOP,
                 total=sum_known, sort_key="d"),
    StatusColumn("rejected", rate_getter("rejected"), "rejected/s", rate_text, kinds=_AGGREGATES, view=_TOP,
                 total=sum_known, sort_key="r", hide_rank=3),
    StatusColumn("lag", None, "lag", total=sum_known, metric=_LAG, sort_key="l"),
    StatusColumn("oldest", None, "oldest", time_text, kinds=_AGGREGATES, view=_TOP, total=largest, sort_key="o",
                 hide_rank=1),
    StatusColumn("latency", None, "latency", time_text, kinds=_AGGREGATES, view=_TOP, total=largest, hide_rank=4),
    StatusColumn("transactions", rate_getter("transactions"), "tx/s", rate_text, kinds=_AGGREGATES, view=_TOP,
                 total=sum_known, sort_key="t", hide_rank=5),
    StatusColumn("batch", rate_getter("batch"), "per tx", rate_text, kinds=_AGGREGATES, view=_TOP,
                 total=largest, hide_rank=5),
    StatusColumn("commit", rate_getter("commit_ms"), "commit", time_text, kinds=_AGGREGATES, view=_TOP,
                 total=largest, hide_rank=5),
    StatusColumn(
        "owner", None, "owner", cells.owner_text, cells.owner_json, left_aligned=True, total=cells.common_owner
    ),
    StatusColumn(
        "growth", None, "repartitioning", kinds=_AGGREGATES, total=cells.distinct_texts, rare=True, hide_rank=2
    ),
    StatusColumn("owned", kinds=_CLAIMED, view=_METRIC_ONLY, metric=_OWNED),
    StatusColumn("since", cells.owner_since, "since", kinds=_CLAIMED, view=_STATUS, hide_rank=5),
    StatusColumn("commands", count_getter("commands"), "commands", kinds=_AGGREGATES, view=_STATUS,
                 total=sum_known, hide_rank=4),
    StatusColumn("verdicts", cells.decisions_by_status, kinds=_AGGREGATES, view=_METRIC_ONLY, metric=_COMMANDS),
    StatusColumn("events", count_getter("events"), kinds=_AGGREGATES, view=_METRIC_ONLY, metric=_EVENTS),
    StatusColumn("commit_seconds", cells.commit_seconds, kinds=_AGGREGATES, view=_METRIC_ONLY,
                 metric=_COMMIT_SECONDS),
    StatusColumn("trial", kinds=_AGGREGATES),
    StatusColumn("deciding", cells.slow_command_json, kinds=_AGGREGATES),
    StatusColumn("stopped_at", kinds=(PROCESS,)),
    StatusColumn("waits_for", kinds=_CLAIMED),
    StatusColumn("state", shard_or_store, "state", cells.shard_text, cells.shard_json, kinds=_AGGREGATES,
                 view=_STATUS | _JSON, total=all_shards, hide_rank=1),
    StatusColumn("hidden_by", cells.hiding_transaction_json, kinds=_AGGREGATES),
)
# fmt: on


def partition_document(status: PartitionStatus, columns: Sequence[StatusColumn] = COLUMNS) -> dict[str, Any]:
    """Return a partition's status as JSON."""
    return row_document(
        status, [column for column in columns if View.JSON in column.view and status.kind in column.kinds]
    )


class Row(NamedTuple):
    """A line of a table: one partition, or the sum of several partitions. Its values have the order of the columns."""

    label: str
    values: tuple[Any, ...]


def row(status: PartitionStatus, columns: Sequence[StatusColumn]) -> Row:
    """Return the line of a partition."""
    return Row(status.label, tuple(column.value_of(status) for column in columns))


def total(label: str, rows: Sequence[Row], columns: Sequence[StatusColumn]) -> Row:
    """Combine several lines to one: the sum of numbers, the maximum of times, and the owner if all lines have it."""
    values_by_column = [[row.values[number] for row in rows] for number in range(len(columns))]
    sums = (
        None if column.total is None else column.total(values)
        for column, values in zip(columns, values_by_column, strict=True)
    )
    return Row(label, tuple(sums))


def cell_texts(line: Row, columns: Sequence[StatusColumn], is_sum: bool = False) -> Iterator[str]:
    """Yield the cells of a line after its label. `is_sum`: the line is a total, in which some columns are empty."""
    for column, value in zip(columns, line.values, strict=True):
        yield "" if is_sum and column.total is None else column.text(value)
