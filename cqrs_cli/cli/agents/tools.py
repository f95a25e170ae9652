"""The tools of `cqrs mcp`. An agent reads their docstrings and annotations."""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from cqrs_cli.cli.agents.command_line import run_command
from cqrs_cli.cli.agents.read_only_query import MAX_ROWS, QUERY_SETTINGS, read_only_query
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: The longest time in seconds for which a token is valid.
MAX_TOKEN_LIFETIME = 3600.0

_At = Annotated[
    str | None, Field(description="A time such as 2h ago or 2026-11-21T01:02:03Z, or a version of `show`.")
]
_Since = Annotated[str, Field(description="Search records since this time: 7d, or 2026-11-21T01:02:03Z.")]


class _DryRun(NamedTuple):
    """The command of a dry run, and when its token expires (s since the epoch)."""

    command: dict[str, Any]
    expires_at: float


class AgentTools:
    """The tools, which run commands of `cqrs` with the cluster flags `flags`, such as ["-b", "kafka:9092"]."""

    def __init__(
        self, flags: Sequence[str], dedup_window: timedelta, clock: "Callable[[], float]" = time.time
    ) -> None:
        self._flags, self._clock = flags, clock
        # A repeated call sends the same id again. After the dedup window, owners would decide it a second time.
        self._token_lifetime = min(MAX_TOKEN_LIFETIME, dedup_window.total_seconds() / 2)
        self._dry_runs: dict[str, _DryRun] = {}  # by token

    @property
    def read_tools(self) -> "list[Callable[..., Awaitable[dict[str, Any]]]]":
        """The tools that write nothing."""
        return [self.describe, self.show, self.history, self.trace, self.why, self.sql, self.whatif]

    async def describe(self, aggregate: str | None = None, message: str | None = None) -> dict[str, Any]:
        """Describe all aggregates, one aggregate or one message: fields, types and defaults, as JSON Schema."""
        return await self._run_for_document("describe", "--", *filter(None, (aggregate, message)))

    async def show(self, aggregate: str, id: str | None = None, at: _At = None) -> dict[str, Any]:
        """Show the state and version of an aggregate, now or earlier; without an id all ids with their versions."""
        return await self._run_for_document(
            "show", *_option("--at", at), "--", aggregate, *filter(None, (id,))
        )

    async def history(self, aggregate: str, id: str, at: _At = None) -> dict[str, Any]:
        """Show the state of an aggregate, and its last events with the version and time of each."""
        document = await self._run_for_document(
            "show", "--history", *_option("--at", at), "--", aggregate, id
        )
        omitted = max(0, len(document["history"]) - MAX_ROWS)
        return document | {"history": document["history"][omitted:], "omitted": omitted}

    async def trace(self, id: str, since: _Since = "1d") -> dict[str, Any]:
        """Show commands, outcomes and events of a correlation, a command or an aggregate, and what they caused."""
        return await self._run_for_document("trace", "--since", since, "--", id)

    async def why(self, command_id: str, since: _Since = "1d") -> dict[str, Any]:
        """Explain the outcome of a command: why it was rejected, failed or deferred, and in which state."""
        from cqrs_cli.core.messages.reasons import STATUSES, Reason

        document = await self._run_for_document("trace", "--since", since, "--", command_id)
        decisions = []
        for command in _commands_in(document["commands"]):
            if command["id"] != command_id:
                continue
            outcome = command["outcome"] or {}
            reason = Reason.__members__.get(outcome.get("reason", ""))
            decision = {name: command[name] for name in ("aggregate", "subject", "type", "time", "data")}
            decision |= {"outcome": outcome or None}
            if outcome:
                decision |= {
                    "status_means": STATUSES[outcome["status"]].meaning,
                    "reason_means": reason.meaning if reason else None,
                    "state": await self._state_before(command, outcome),
                }
            decisions.append(decision)
        return {"decisions": decisions}

    async def _state_before(self, command: dict[str, Any], outcome: dict[str, Any]) -> Any:
        """Return the state in which a command was decided.

        None if the aggregate had no event before, or if the command names no aggregate.
        """
        version = outcome["version"] - outcome["events"]
        if version < 1 or command["subject"] is None:
            return None
        return await self._run_for_document(
            "show", "--at", str(version), "--", command["aggregate"], command["subject"]
        )

    async def sql(self, query: str, at: _At = None) -> dict[str, Any]:
        """Query topics and states with one SELECT of Spark SQL, which takes ten seconds and returns at most 200 rows.

        The aggregate order has the views order_commands, order_events, order_outcomes, order_state, and a view for each
        event type, such as order_Placed. SHOW VIEWS lists them, DESCRIBE order_state lists columns.
        """
        settings = [text for name, value in QUERY_SETTINGS.items() for text in ("--conf", f"{name}={value}")]
        rows = await run_command(
            ["sql", *_option("--at", at), *settings, "--", read_only_query(query)], self._flags
        )
        return {"rows": rows[:MAX_ROWS], "more": len(rows) > MAX_ROWS}

    async def whatif(
        self,
        aggregate: str,
        module: Annotated[
            str, Field(description="A module of the project with other code, such as drafts.order.")
        ],
        since: Annotated[
            str | None, Field(description="Decide only commands since this time: 30d. Default: all.")
        ] = None,
    ) -> dict[str, Any]:
        """Decide past commands again with other code, and count the differences. It writes no topic."""
        return await self._run_for_document(
            "whatif", "--with", module, *_option("--since", since), "--", aggregate
        )

    async def send(
        self,
        aggregate: str,
        id: Annotated[str, Field(description="The aggregate's id.")],
        command: str,
        data: dict[str, Any],
        expected_version: Annotated[str | None, Field(description="any, none, exists, N or >=N.")] = None,
        token: Annotated[
            str | None, Field(description="The token of the dry run. Without it, nothing is sent.")
        ] = None,
    ) -> dict[str, Any]:
        """Send a command. The first call only shows the outcome and the events that it would have, with a token; the
        second call with the same arguments and this token sends it, and returns its outcome.
        """
        from cqrs_cli.client.uuid7 import uuid7

        document = {"type": f"{aggregate}.{command}", "subject": id, "data": data}
        if expected_version is not None:
            document["expectedversion"] = expected_version
        now = self._clock()
        self._dry_runs = {key: run for key, run in self._dry_runs.items() if run.expires_at > now}
        if token is None:
            document["id"] = uuid7()
            result = await self._send(document, "--dry-run")
            token = secrets.token_hex(8)
            self._dry_runs[token] = _DryRun(document, now + self._token_lifetime)
            return {"sent": False, "token": token, "dry_run": result}
        dry_run = self._dry_runs.get(token)
        if dry_run is None or dry_run.command != document | {"id": dry_run.command["id"]}:
            raise UsageError(
                "the token belongs to no dry run of this command, or is expired",
                "call send without token first, then with equal arguments",
            )
        return {"sent": True, "result": await self._send(dry_run.command, "--wait")}

    async def _send(self, document: dict[str, Any], option: str) -> Any:
        return (await run_command(["send", "--file", "-", option], self._flags, json.dumps(document)))[0]

    async def _run_for_document(self, *arguments: str) -> dict[str, Any]:
        """Run a command that prints one document."""
        (document,) = await run_command(arguments, self._flags)
        return dict(document)


def _option(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, value]


def _commands_in(commands: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the commands of a trace and, recursively, the commands that they or their events caused."""
    for command in commands:
        yield command
        for node in (command, *command["events"]):
            yield from _commands_in(node["commands"])
