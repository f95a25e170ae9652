"""The results of `cqrs demo`: tables for people, and one document for programs."""

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line
from cqrs_cli.column import Column, row_document

if TYPE_CHECKING:
    from cqrs_cli.client.history import AggregateHistory
    from cqrs_cli.core.messages.outcome import Verdict
    from cqrs_cli.demo.play import DemoResults, StepOutcome, Tally


#: The style of an outcome on a terminal.
COLOURS = {"accepted": "green", "rejected": "yellow", "duplicate": "cyan", "failed": "red"}


def _verdict_text(verdict: "Verdict") -> str:
    return " ".join(
        text for text in (verdict.status, verdict.code or verdict.reason, verdict.message) if text
    )


OUTCOMES: "tuple[Column[tuple[int, StepOutcome]], ...]" = (
    Column("number", lambda numbered_outcome: numbered_outcome[0], " "),
    Column("says", lambda numbered_outcome: numbered_outcome[1].step.description, "sent"),
    Column(
        "outcome",
        lambda numbered_outcome: numbered_outcome[1].verdict,
        "decided",
        _verdict_text,
        style=lambda verdict: COLOURS.get(verdict.status, ""),
    ),
    Column("version", lambda numbered_outcome: numbered_outcome[1].verdict.version, "version"),
)

ACCOUNTS: "tuple[Column[tuple[str, AggregateHistory]], ...]" = (
    Column("id", lambda account: account[0], "account"),
    Column("version", lambda account: account[1].version, "version"),
    Column("state", lambda account: account[1].state, "state", lambda state: json_line(state).decode()),
)


def read_model_columns(rows: list[dict[str, Any]]) -> tuple[Column[dict[str, Any]], ...]:
    """Return the columns of a read model's rows."""
    return tuple(Column(name, itemgetter(name), name, str) for name in (rows[0] if rows else ()))


def comparison_text(live: "Tally", replayed: "Tally") -> str:
    """Return the digests of the live and the replayed states, and whether they are equal."""
    result_text = "the same" if live == replayed else "NOT THE SAME"
    return (
        f"\nAll events folded again on Spark, {replayed.aggregates} accounts: {result_text} as the live state.\n\n"
        f"live    {live.digest}\nreplay  {replayed.digest}\n"
    )


def demo_document(results: "DemoResults") -> dict[str, Any]:
    """Return the JSON document of the bank part of the demo."""
    return {
        "commands": [
            {
                "says": step.description,
                "subject": step.key,
                "expects": step.expected_result,
                "outcome": verdict,
            }
            for step, verdict in results.outcomes
        ],
        "decided": results.decided.summary(),
        "accounts": [row_document(account, ACCOUNTS) for account in results.accounts.items()],
        "live": results.shard_tally._asdict(),
        "replay": results.replay_tally._asdict(),
        "equal": results.shard_tally == results.replay_tally,
    }
