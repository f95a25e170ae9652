"""The findings of `cqrs doctor`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.doctor.check import Check
    from cqrs_cli.doctor.settings import SettingRow

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}

CHECKS: "tuple[Column[Check], ...]" = (
    Column("status", header="status", style=_COLOURS.__getitem__),
    Column("name", header="name"),
    Column(
        "detail", lambda check: f"{check.detail}\n→ {check.hint}" if check.hint else check.detail, "detail"
    ),
)

SETTINGS: "tuple[Column[SettingRow], ...]" = (
    Column("name", header="setting"),
    Column("value", header="value"),
    Column("origin", header="from"),
)


def doctor_result(checks: "list[Check]", settings: "list[SettingRow]") -> Result:
    """Return the checks, and the effective settings."""

    def text() -> "RenderableType":
        from rich.console import Group

        check_table = table(checks, CHECKS, with_headers=False)
        return Group(check_table, "", table(settings, SETTINGS)) if settings else check_table

    document = {
        "ok": all(check.status != "fail" for check in checks),
        "checks": [asdict(check) for check in checks],
        "settings": {row.name: {"value": row.value, "origin": row.origin} for row in settings},
    }
    return Result(document, text)
