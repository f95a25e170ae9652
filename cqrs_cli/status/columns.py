"""The one list of what is shown of a partition: as text, as JSON and to Prometheus. A new column is a line of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, NamedTuple

from cqrs_cli.column import Column, row_document
from cqrs_cli.status import cells
from cqrs_cli.status.cells import added, all_shards, count, largest, rate, rate_text, shard, time_text
from cqrs_cli.status.place import DECIDED, HEARD, PLACE_KINDS, PROJECTED, PlaceKind, PlaceStatus


class View(Flag):
    """The places that show a column: in the table of `cqrs status`, in that of `cqrs top`, and in JSON."""

    STATUS = auto()
    TOP = auto()
    JSON = auto()


class Metric(NamedTuple):
    """A metric. Its name follows the kind's prefix; a value that is a mapping has a sample for each key."""

    name: str
    help: str
    kinds: tuple[PlaceKind, ...] = PLACE_KINDS
    counter: bool = False
    label: str = ""  # of a mapping's keys


@dataclass(frozen=True, slots=True)
class PlaceColumn(Column[PlaceStatus]):
    """One thing that is told of a partition, also to Prometheus if it has a metric."""

    left: bool = False
    kinds: tuple[PlaceKind, ...] = PLACE_KINDS
    view: View = View.STATUS | View.TOP | View.JSON
    total: Callable[[list[Any]], Any] | None = None  # of several partitions; None: nothing
    metric: Metric | None = None
    key: str = ""  # which sorts the live table by it
    rare: bool = False  # a table in which no row has it does not show it
    spare: int = 0  # of a narrow screen the column with the highest is left out first, with 0 never

    def of(self, row: PlaceStatus) -> Any:
        """The value; None where this is nothing for the kind of partition."""
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
    """A partition in JSON."""
    return row_document(place, [one for one in columns if View.JSON in one.view and place.kind in one.kinds])


class Row(NamedTuple):
    """A line of a table: one partition, or several summed up. Its values are those of the columns, in order."""

    label: str
    values: tuple[Any, ...]


def row(place: PlaceStatus, columns: Sequence[PlaceColumn]) -> Row:
    """The line of a partition."""
    return Row(place.label, tuple(column.of(place) for column in columns))


def total(label: str, rows: Sequence[Row], columns: Sequence[PlaceColumn]) -> Row:
    """Several lines as one: what can be is added, of times it has the longest, and the owner if all have the same."""
    found = [[one.values[number] for one in rows] for number in range(len(columns))]
    sums = (
        None if one.total is None else one.total(values) for one, values in zip(columns, found, strict=True)
    )
    return Row(label, tuple(sums))


def texts(line: Row, columns: Sequence[PlaceColumn], summed: bool = False) -> Iterator[str]:
    """The cells of a line behind its label."""
    for column, value in zip(columns, line.values, strict=True):
        yield "" if summed and column.total is None else column.text(value)
