"""A snapshot of all partitions: as JSON, and as tables for people."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import WIDE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.status.columns import StatusColumn
    from cqrs_cli.status.partition import PartitionStatus
    from cqrs_cli.status.rates import StatusSnapshot


def status_document(
    look: "StatusSnapshot",
    store: str,
    with_digest: bool = False,
    columns: "Sequence[StatusColumn] | None" = None,
) -> dict[str, Any]:
    """Return the snapshot as JSON. `store`: the setting."""
    from cqrs_cli.core.messages.timestamps import rfc3339
    from cqrs_cli.status.columns import COLUMNS, partition_document
    from cqrs_cli.status.partition import AGGREGATE, PROCESS, PROJECTION, standbys_by_name

    def partitions(places: "Iterable[PartitionStatus]") -> list[dict[str, Any]]:
        return [partition_document(place, columns or COLUMNS) for place in places]

    decided = [place for place in look.statuses if place.kind is AGGREGATE]
    written = {"time": rfc3339(look.clock), **_sums(decided), "store": store}
    if with_digest:
        written["digest"] = _digest(decided)
    written["aggregates"] = {
        name: {
            **_sums(places),
            **({"digest": _digest(places)} if with_digest else {}),
            "standbys": standbys_by_name(places).get(name, []),
            "partitions": partitions(places),
        }
        for name, places in _by_name(decided)
    }
    written["missing"] = list(look.missing)
    for key, kind in (("processes", PROCESS), ("projections", PROJECTION)):
        found = _by_name(place for place in look.statuses if place.kind is kind)
        if found or kind is PROCESS:
            written[key] = {
                name: {"lag": sum(place.lag or 0 for place in places), "partitions": partitions(places)}
                for name, places in found
            }
    return written


def _by_name(places: "Iterable[PartitionStatus]") -> "list[tuple[str, list[PartitionStatus]]]":
    return [(name, list(found)) for name, found in groupby(places, lambda place: place.name)]


def _sums(places: "Sequence[PartitionStatus]") -> dict[str, Any]:
    return {
        "lag": sum(place.lag or 0 for place in places),
        "commands": sum(place.counts.commands for place in places if place.counts is not None),
        "per_second": round(sum(place.rates.done for place in places if place.rates is not None), 1),
    }


def _digest(places: "Iterable[PartitionStatus]") -> str | None:
    """Return the sum over the shards; None if a shard is not on this machine."""
    from cqrs_cli.core import digest

    total = 0
    for place in places:
        if place.shard is None or place.shard.digest is None:
            return None
        total = digest.add(total, place.shard.digest)
    return digest.as_hex(total)


def status_text(
    look: "StatusSnapshot",
    store: str,
    with_digest: bool = False,
    columns: "Sequence[StatusColumn] | None" = None,
    width: int = WIDE,
) -> "RenderableType":
    """Return the snapshot for people: a table for each kind of partition, and remarks for an operator.

    A narrow screen leaves out spare columns.
    """
    from rich.console import Group
    from rich.text import Text

    from cqrs_cli.cli.render.partition_table import columns_of, place_table
    from cqrs_cli.status.columns import COLUMNS, View, row, total
    from cqrs_cli.status.partition import AGGREGATE, PARTITION_KINDS, standbys_by_name

    parts: list[RenderableType] = []
    for kind in PARTITION_KINDS:
        places = [place for place in look.statuses if place.kind is kind]
        if places:
            shown = columns_of(View.STATUS, [kind], columns or COLUMNS)
            rows = [row(place, shown) for place in places]
            table = place_table(kind, rows, shown, total("total", rows, shown), width)
            table.show_footer = len(rows) > 1
            parts += [*([""] if parts else []), table]
            parts += [
                Text(f"{name}: standing by: {', '.join(runs)}")
                for name, runs in standbys_by_name(places).items()
            ]
            parts += [Text(f"{place.label}: {remark}") for place in places for remark in place.remarks()]
        if kind is AGGREGATE and with_digest:
            parts += [
                f"digest of {name}: {_digest(found) or _without_digest(name, store)}"
                for name, found in _by_name(places)
            ]
    return Group(*parts)


def _without_digest(name: str, store: str) -> str:
    if store == "memory":
        return f"the states are in the memory of their owners; from the events: cqrs replay {name}"
    return "not all of it is on this machine"
