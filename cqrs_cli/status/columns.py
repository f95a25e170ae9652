"""The one list of what is shown of a partition: as text, as JSON and to Prometheus. A new column is a line of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, NamedTuple

from cqrs_cli.status import cells
from cqrs_cli.status.cells import added, all_shards, count, largest, rate, rate_text, shard, time_text
from cqrs_cli.status.place import DECIDED, HEARD, PLACE_KINDS, PROJECTED, PlaceKind, PlaceStatus


class View(Flag):
    """Where a column is shown: in the table of `cqrs status`, in that of `cqrs top`, and in JSON."""

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
class Column:
    """One thing that is shown of a partition: in tables if it has a header, to Prometheus if it has a metric."""

    name: str  # in JSON; also the attribute of `PlaceStatus`, if there is no `value`
    value: Callable[[PlaceStatus], Any] | None = None
    header: str = ""
    kinds: tuple[PlaceKind, ...] = PLACE_KINDS
    view: View = View.STATUS | View.TOP | View.JSON
    text: Callable[[Any], str] = cells.plain
    total: Callable[[list[Any]], Any] | None = None  # of several partitions; None: nothing
    json: Callable[[PlaceStatus], Any] | None = None  # None: the value
    metric: Metric | None = None
    left: bool = False  # how cells are aligned
    key: str = ""  # which sorts the live table by it
    spare: int = 0  # of a narrow screen the column with the highest is left out first, with 0 never

    def of(self, place: PlaceStatus) -> Any:
        """The value; None where this is nothing for the kind of partition."""
        if place.kind not in self.kinds:
            return None
        return getattr(place, self.name) if self.value is None else self.value(place)


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
COLUMNS: tuple[Column, ...] = (
    Column("topic", kinds=_FOLLOWED),
    Column("partition"),
    Column("start", kinds=_LOGS),
    Column("end", None, "log end", PLACE_KINDS, _STATUS | _JSON, cells.end_text, spare=3),
    Column("position", None, "{done} to", PLACE_KINDS, _STATUS | _JSON, cells.position_text, metric=_POSITION),
    Column("sent", rate("sent"), "sent/s", _LOGS, _TOP, rate_text, added, key="s", spare=2),
    Column("decided", rate("done"), "{done}/s", _LOGS, _STATUS | _TOP, rate_text, added, key="d"),
    Column("refused", rate("refused"), "refused/s", _RUNS, _TOP, rate_text, added, key="r", spare=3),
    Column("lag", None, "lag", total=added, metric=_LAG, key="l"),
    Column("oldest", None, "oldest", _RUNS, _TOP, time_text, largest, key="o", spare=1),
    Column("latency", None, "latency", _RUNS, _TOP, time_text, largest, spare=4),
    Column("owner", None, "owner", text=cells.owner_text, total=cells.one_owner, json=cells.owner_json, left=True),
    Column("owned", kinds=_LOGS, view=_METRIC, metric=_OWNED),
    Column("since", cells.since, "since", _LOGS, _STATUS, spare=5),
    Column("commands", count("commands"), "commands", _RUNS, _STATUS, total=added, spare=4),
    Column("verdicts", cells.verdicts, kinds=_RUNS, view=_METRIC, metric=_COMMANDS),
    Column("events", count("events"), kinds=_RUNS, view=_METRIC, metric=_EVENTS),
    Column("trial", kinds=_RUNS),
    Column("deciding", cells.slow, kinds=_RUNS),
    Column("stopped_at", kinds=(HEARD,)),
    Column("waits_for", kinds=_LOGS),
    Column("state", shard, "state", _RUNS, _STATUS | _JSON, cells.shard_text, all_shards, cells.shard_json, spare=1),
    Column("hidden_by", cells.hidden, kinds=_RUNS),
)
# fmt: on


def place_document(place: PlaceStatus, columns: Sequence[Column] = COLUMNS) -> dict[str, Any]:
    """A partition in JSON."""
    shown = [column for column in columns if View.JSON in column.view and place.kind in column.kinds]
    return {column.name: (column.json or column.of)(place) for column in shown}


class Row(NamedTuple):
    """A line of a table: one partition, or several summed up. Its values are those of the columns, in order."""

    label: str
    values: tuple[Any, ...]


def row(place: PlaceStatus, columns: Sequence[Column]) -> Row:
    """The line of a partition."""
    return Row(place.label, tuple(column.of(place) for column in columns))


def total(label: str, rows: Sequence[Row], columns: Sequence[Column]) -> Row:
    """Several lines as one: what can be is added, of times it has the longest, and the owner if all have the same."""
    found = [[one.values[number] for one in rows] for number in range(len(columns))]
    sums = (
        None if one.total is None else one.total(values) for one, values in zip(columns, found, strict=True)
    )
    return Row(label, tuple(sums))


def texts(line: Row, columns: Sequence[Column], summed: bool = False) -> Iterator[str]:
    """The cells of a line behind its label."""
    for column, value in zip(columns, line.values, strict=True):
        yield "" if summed and column.total is None else column.text(value)
