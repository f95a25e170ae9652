"""The checks of `cqrs doctor` and the settings in force: as JSON, and as tables for people."""

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.doctor.check import Check
    from cqrs_cli.doctor.settings import SettingRow


_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor_document(checks: "list[Check]", held: "list[SettingRow]") -> dict[str, object]:
    return {
        "ok": all(check.status != "fail" for check in checks),
        "checks": [asdict(check) for check in checks],
        "settings": {row.name: {"value": row.value, "origin": row.origin} for row in held},
    }


def doctor_text(checks: "list[Check]", held: "list[SettingRow]") -> "RenderableType":
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    found = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for check in checks:
        hint = f"\n→ {check.hint}" if check.hint else ""
        colour = _COLOURS[check.status]
        found.add_row(f"[{colour}]{check.status}[/]", check.name, escape(check.detail + hint))
    table = Table("setting", "value", "from", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for row in held:
        table.add_row(*map(escape, row))
    return Group(found, "", table) if held else found
