"""The acts of `cqrs demo` for people, and its one document for programs."""

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line
from cqrs_cli.column import Column, row_document

if TYPE_CHECKING:
    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.core.messages.outcome import Verdict
    from cqrs_cli.demo.play import Performance, StepOutcome, Tally


#: The style of an outcome on a terminal.
COLOURS = {"accepted": "green", "rejected": "yellow", "duplicate": "cyan", "failed": "red"}


def _verdict_text(verdict: "Verdict") -> str:
    return " ".join(one for one in (verdict.status, verdict.code or verdict.reason, verdict.message) if one)


OUTCOMES: "tuple[Column[tuple[int, StepOutcome]], ...]" = (
    Column("number", lambda one: one[0], " "),
    Column("says", lambda one: one[1].step.says, "sent"),
    Column(
        "outcome",
        lambda one: one[1].verdict,
        "decided",
        _verdict_text,
        style=lambda one: COLOURS.get(one.status, ""),
    ),
    Column("version", lambda one: one[1].verdict.version, "version"),
)

ACCOUNTS: "tuple[Column[tuple[str, AggregateHistory]], ...]" = (
    Column("id", lambda one: one[0], "account"),
    Column("version", lambda one: one[1].version, "version"),
    Column("state", lambda one: one[1].state, "state", lambda state: json_line(state).decode()),
)


def read_model_columns(rows: list[dict[str, Any]]) -> tuple[Column[dict[str, Any]], ...]:
    """Return the columns of a read model's rows."""
    return tuple(Column(name, itemgetter(name), name, str) for name in (rows[0] if rows else ()))


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
        "accounts": [row_document(one, ACCOUNTS) for one in performance.accounts.items()],
        "live": performance.live._asdict(),
        "replay": performance.replayed._asdict(),
        "equal": performance.live == performance.replayed,
    }
