"""The output of `cqrs status` for people: a snapshot of all partitions as tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cqrs_cli.cli.output import PIPE_WIDTH

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.status.columns import StatusColumn
    from cqrs_cli.status.rates import StatusSnapshot


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
    from cqrs_cli.status.columns import COLUMNS, View, partition_row, total_row
    from cqrs_cli.status.document import digest_text, statuses_by_name
    from cqrs_cli.status.partition import AGGREGATE, PARTITION_KINDS, standbys_by_name

    parts: list[RenderableType] = []
    for kind in PARTITION_KINDS:
        statuses = [status for status in snapshot.statuses if status.kind is kind]
        if statuses:
            visible_columns = table_columns(View.STATUS, [kind], columns or COLUMNS)
            rows = [partition_row(status, visible_columns) for status in statuses]
            table = partition_table(
                kind, rows, visible_columns, total_row("total", rows, visible_columns), width
            )
            table.show_footer = len(rows) > 1
            parts += [*([""] if parts else []), table]
            parts += [
                Text(f"{name}: standby runs: {', '.join(runs)}")
                for name, runs in standbys_by_name(statuses).items()
            ]
            parts += [Text(f"{status.label}: {remark}") for status in statuses for remark in status.remarks()]
        if kind is AGGREGATE and with_digest:
            parts += [
                f"digest of {name}: {digest_text(group) or _missing_digest_text(name, store)}"
                for name, group in statuses_by_name(statuses)
            ]
    return Group(*parts)


def _missing_digest_text(name: str, store: str) -> str:
    if store == "memory":
        return (
            f"the states are in the memory of their owners; compute them from the events: cqrs replay {name}"
        )
    return "not all shards are on this machine"
