"""The acts of `cqrs demo` for people, and its one document for programs."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.demo.play import Performance, StepOutcome, Tally


#: How an outcome looks on a terminal.
COLOURS = {"accepted": "green", "rejected": "yellow", "duplicate": "cyan", "failed": "red"}


def outcomes_table(outcomes: "list[StepOutcome]") -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for header in ("", "sent", "decided", "version"):
        table.add_column(header)
    for number, (step, verdict) in enumerate(outcomes, 1):
        why = " ".join(text for text in (verdict.code or verdict.reason, verdict.message) if text)
        decided = Text(verdict.status, COLOURS.get(verdict.status, "")).append(f" {why}", "default")
        table.add_row(str(number), step.says, decided, str(verdict.version))
    return table


def accounts_table(accounts: "dict[str, AggregateHistory]") -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for header in ("account", "version", "state"):
        table.add_column(header)
    for account, shown in accounts.items():
        table.add_row(account, str(shown.version), json_line(shown.state).decode())
    return table


def read_model_table(rows: list[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for header in rows[0] if rows else ():
        table.add_column(header)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def comparison_text(live: "Tally", replayed: "Tally") -> str:
    verdict = "the same" if live == replayed else "NOT THE SAME"
    return (
        f"\nAll events folded again on Spark, {replayed.aggregates} accounts: {verdict} as the live state.\n\n"
        f"live    {live.digest}\nreplay  {replayed.digest}\n"
    )


def demo_document(performance: "Performance") -> dict[str, Any]:
    return {
        "commands": [
            {"says": step.says, "subject": step.key, "expects": step.ends, "outcome": verdict}
            for step, verdict in performance.outcomes
        ],
        "decided": performance.decided.summary(),
        "accounts": [
            {"id": account, "version": shown.version, "state": shown.state}
            for account, shown in performance.accounts.items()
        ],
        "live": performance.live._asdict(),
        "replay": performance.replayed._asdict(),
        "equal": performance.live == performance.replayed,
    }
