"""The output of `cqrs status`: a snapshot of all partitions as JSON, and as tables."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import PIPE_WIDTH

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.status.columns import StatusColumn
    from cqrs_cli.status.partition import PartitionStatus
    from cqrs_cli.status.rates import StatusSnapshot


def status_document(
    snapshot: "StatusSnapshot",
    store: str,
    with_digest: bool = False,
    columns: "Sequence[StatusColumn] | None" = None,
) -> dict[str, Any]:
    """Return the snapshot as JSON. `store`: the setting `store`, "lmdb" or "memory"."""
    from cqrs_cli.core.messages.timestamps import rfc3339
    from cqrs_cli.status.columns import COLUMNS, partition_document
    from cqrs_cli.status.partition import AGGREGATE, PROCESS, PROJECTION, standbys_by_name

    def partitions(statuses: "Iterable[PartitionStatus]") -> list[dict[str, Any]]:
        return [partition_document(status, columns or COLUMNS) for status in statuses]

    aggregate_statuses = [status for status in snapshot.statuses if status.kind is AGGREGATE]
    document = {"time": rfc3339(snapshot.clock), **_sums(aggregate_statuses), "store": store}
    if with_digest:
        document["digest"] = _digest(aggregate_statuses)
    document["aggregates"] = {
        name: {
            **_sums(statuses),
            **({"digest": _digest(statuses)} if with_digest else {}),
            "standbys": standbys_by_name(statuses).get(name, []),
            "partitions": partitions(statuses),
        }
        for name, statuses in _by_name(aggregate_statuses)
    }
    document["missing"] = list(snapshot.missing)
    for key, kind in (("processes", PROCESS), ("projections", PROJECTION)):
        groups = _by_name(status for status in snapshot.statuses if status.kind is kind)
        if groups or kind is PROCESS:
            document[key] = {
                name: {"lag": sum(status.lag or 0 for status in statuses), "partitions": partitions(statuses)}
                for name, statuses in groups
            }
    return document


def _by_name(statuses: "Iterable[PartitionStatus]") -> "list[tuple[str, list[PartitionStatus]]]":
    return [(name, list(group)) for name, group in groupby(statuses, lambda status: status.name)]


def _sums(statuses: "Sequence[PartitionStatus]") -> dict[str, Any]:
    return {
        "lag": sum(status.lag or 0 for status in statuses),
        "commands": sum(status.counts.commands for status in statuses if status.counts is not None),
        "per_second": round(sum(status.rates.done for status in statuses if status.rates is not None), 1),
    }


def _digest(statuses: "Iterable[PartitionStatus]") -> str | None:
    """Return the digest of all states in the shards; None if a shard is not on this machine."""
    from cqrs_cli.core import digest

    total = 0
    for status in statuses:
        if status.shard is None or status.shard.digest is None:
            return None
        total = digest.add_digests(total, status.shard.digest)
    return digest.as_hex(total)


def status_text(
    snapshot: "StatusSnapshot",
    store: str,
    with_digest: bool = False,
    columns: "Sequence[StatusColumn] | None" = None,
    width: int = PIPE_WIDTH,
) -> "RenderableType":
    """Return the snapshot for people: a table for each kind of partition, and remarks for an operator.

    On a narrow screen, columns with a `hide_rank` are left out.
    """
    from rich.console import Group
    from rich.text import Text

    from cqrs_cli.cli.render.partition_table import partition_table, table_columns
    from cqrs_cli.status.columns import COLUMNS, View, row, total
    from cqrs_cli.status.partition import AGGREGATE, PARTITION_KINDS, standbys_by_name

    parts: list[RenderableType] = []
    for kind in PARTITION_KINDS:
        statuses = [status for status in snapshot.statuses if status.kind is kind]
        if statuses:
            visible_columns = table_columns(View.STATUS, [kind], columns or COLUMNS)
            rows = [row(status, visible_columns) for status in statuses]
            table = partition_table(kind, rows, visible_columns, total("total", rows, visible_columns), width)
            table.show_footer = len(rows) > 1
            parts += [*([""] if parts else []), table]
            parts += [
                Text(f"{name}: standby runs: {', '.join(runs)}")
                for name, runs in standbys_by_name(statuses).items()
            ]
            parts += [Text(f"{status.label}: {remark}") for status in statuses for remark in status.remarks()]
        if kind is AGGREGATE and with_digest:
            parts += [
                f"digest of {name}: {_digest(group) or _missing_digest_text(name, store)}"
                for name, group in _by_name(statuses)
            ]
    return Group(*parts)


def _missing_digest_text(name: str, store: str) -> str:
    if store == "memory":
        return (
            f"the states are in the memory of their owners; compute them from the events: cqrs replay {name}"
        )
    return "not all shards are on this machine"
