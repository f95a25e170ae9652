"""The list of all columns of a partition's status: as text, as JSON and for Prometheus. A new column is one line."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, NamedTuple

from cqrs_cli.column import Column, row_document
from cqrs_cli.status import cells
from cqrs_cli.status.cells import added, all_shards, count, largest, rate, rate_text, shard, time_text
from cqrs_cli.status.partition import DECIDED, HEARD, PLACE_KINDS, PROJECTED, PlaceKind, PlaceStatus


class View(Flag):
    """The displays of a column: the table of `cqrs status`, the table of `cqrs top`, and JSON."""

    STATUS = auto()
    TOP = auto()
    JSON = auto()


class Metric(NamedTuple):
    """A metric. Its name follows the prefix of the kind; a value that is a mapping has a sample for each key."""

    name: str
    help: str
    kinds: tuple[PlaceKind, ...] = PLACE_KINDS
    counter: bool = False
    label: str = ""  # the label of a mapping's keys


@dataclass(frozen=True, slots=True)
class PlaceColumn(Column[PlaceStatus]):
    """A column of a partition's status, with its Prometheus metric if it has one."""

    left: bool = False
    kinds: tuple[PlaceKind, ...] = PLACE_KINDS
    view: View = View.STATUS | View.TOP | View.JSON
    total: Callable[[list[Any]], Any] | None = None  # for several partitions; None: an empty cell
    metric: Metric | None = None
    key: str = ""  # the key that sorts the live table by this column
    rare: bool = False  # hidden in a table in which no row has a value
    spare: int = 0  # a narrow screen hides the highest first, and never 0

    def of(self, row: PlaceStatus) -> Any:
        """Return the value; None if the column does not apply to the kind of partition."""
        return Column.of(self, row) if row.kind in self.kinds else None


_LOGS, _RUNS, _FOLLOWED = (DECIDED, HEARD), (DECIDED,), (HEARD, PROJECTED)
_STATUS, _TOP, _JSON = View.STATUS, View.TOP, View.JSON
_METRIC = View(0)

_POSITION = Metric("position", "The offset of the next event to be {passive}.", _FOLLOWED)
_LAG = Metric("lag_{unit}", "{Unit} that wait to be {passive}; an upper bound, as offsets have holes.")
_OWNED = Metric("partition_owned", "1 if the run has claimed the partition.", _LOGS)
_COMMANDS = Metric("commands", "Commands decided.", _RUNS, counter=True, label="status")
_EVENTS = Metric("events", "Events written.", _RUNS, counter=True)

# fmt: off
#: In the order of tables and documents.
COLUMNS: tuple[PlaceColumn, ...] = (
    PlaceColumn("topic", kinds=_FOLLOWED),
    PlaceColumn("partition"),
    PlaceColumn("start", kinds=_LOGS),
    PlaceColumn("end", None, "log end", cells.end_text, view=_STATUS | _JSON, spare=3),
    PlaceColumn("position", None, "{done} to", cells.position_text, view=_STATUS | _JSON, metric=_POSITION),
    PlaceColumn("sent", rate("sent"), "sent/s", rate_text, kinds=_LOGS, view=_TOP, total=added, key="s", spare=2),
    PlaceColumn("decided", rate("done"), "{done}/s", rate_text, kinds=_LOGS, view=_STATUS | _TOP, total=added, key="d"),
    PlaceColumn("refused", rate("refused"), "refused/s", rate_text, kinds=_RUNS, view=_TOP,
                total=added, key="r", spare=3),
    PlaceColumn("lag", None, "lag", total=added, metric=_LAG, key="l"),
    PlaceColumn("oldest", None, "oldest", time_text, kinds=_RUNS, view=_TOP, total=largest, key="o", spare=1),
    PlaceColumn("latency", None, "latency", time_text, kinds=_RUNS, view=_TOP, total=largest, spare=4),
    PlaceColumn("owner", None, "owner", cells.owner_text, cells.owner_json, left=True, total=cells.one_owner),
    PlaceColumn("growth", None, "growth", kinds=_RUNS, total=cells.each_word, rare=True, spare=2),
    PlaceColumn("owned", kinds=_LOGS, view=_METRIC, metric=_OWNED),
    PlaceColumn("since", cells.since, "since", kinds=_LOGS, view=_STATUS, spare=5),
    PlaceColumn("commands", count("commands"), "commands", kinds=_RUNS, view=_STATUS, total=added, spare=4),
    PlaceColumn("verdicts", cells.verdicts, kinds=_RUNS, view=_METRIC, metric=_COMMANDS),
    PlaceColumn("events", count("events"), kinds=_RUNS, view=_METRIC, metric=_EVENTS),
    PlaceColumn("trial", kinds=_RUNS),
    PlaceColumn("deciding", cells.slow, kinds=_RUNS),
    PlaceColumn("stopped_at", kinds=(HEARD,)),
    PlaceColumn("waits_for", kinds=_LOGS),
    PlaceColumn("state", shard, "state", cells.shard_text, cells.shard_json, kinds=_RUNS, view=_STATUS | _JSON,
                total=all_shards, spare=1),
    PlaceColumn("hidden_by", cells.hidden, kinds=_RUNS),
)
# fmt: on


def place_document(place: PlaceStatus, columns: Sequence[PlaceColumn] = COLUMNS) -> dict[str, Any]:
    """Return a partition's status as JSON."""
    return row_document(place, [one for one in columns if View.JSON in one.view and place.kind in one.kinds])


class Row(NamedTuple):
    """A line of a table: one partition, or the sum of several partitions. Its values have the order of the columns."""

    label: str
    values: tuple[Any, ...]


def row(place: PlaceStatus, columns: Sequence[PlaceColumn]) -> Row:
    """Return the line of a partition."""
    return Row(place.label, tuple(column.of(place) for column in columns))


def total(label: str, rows: Sequence[Row], columns: Sequence[PlaceColumn]) -> Row:
    """Return several lines as one: numbers are added, times have their maximum, and a common owner is kept."""
    found = [[one.values[number] for one in rows] for number in range(len(columns))]
    sums = (
        None if one.total is None else one.total(values) for one, values in zip(columns, found, strict=True)
    )
    return Row(label, tuple(sums))


def texts(line: Row, columns: Sequence[PlaceColumn], summed: bool = False) -> Iterator[str]:
    """Yield the cells of a line after its label."""
    for column, value in zip(columns, line.values, strict=True):
        yield "" if summed and column.total is None else column.text(value)
