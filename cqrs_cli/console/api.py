"""Maps the paths of the console to handlers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cqrs_cli.client.queries.selections import DeferralSelection, LetterSelection, check_letter_reasons
from cqrs_cli.console.actions import ACTIONS, ActionRequest
from cqrs_cli.console.letters import list_deferred, list_letters
from cqrs_cli.console.openapi import CONSOLE_PATHS
from cqrs_cli.console.overview import point_document
from cqrs_cli.console.overview_events import OverviewEncoder
from cqrs_cli.console.parameters import (
    aggregate_of,
    aggregates_of,
    flag_of,
    limit_of,
    parse_time,
    required,
    since_of,
    to_problem,
)
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.sampler import Sample, StatusSampler
from cqrs_cli.console.search import Query, search_events
from cqrs_cli.console.subscriptions import processes_document, projections_document
from cqrs_cli.console.traces import read_commands, read_trace
from cqrs_cli.core.aggregate.json_schema import aggregate_schema
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.gateway.gateway import RETRY_SOON, EventNotifier, Gateway, Problem
from cqrs_cli.following.gateway.guard import (
    access_of,
    may_see_personal,
    read_body,
    require_json,
    require_right,
)
from cqrs_cli.following.gateway.responses import json_response, query_parameters
from cqrs_cli.following.gateway.streams import EventStream
from cqrs_cli.following.gateway.token import RIGHTS
from cqrs_cli.following.gateway.topic_reads import CancelCheck, run_read
from cqrs_cli.settings.moments import parse_deadline
from cqrs_cli.version import __version__

#: Seconds without a poll until the stream of overviews sends a comment, which shows that the connection is alive.
_KEEPALIVE_INTERVAL = 15.0

_NO_STORE = {"Cache-Control": "no-store"}


class ConsoleApi:
    """The console of a gateway. The caller starts and closes `sampler`."""

    def __init__(self, project: ConsoleProject, sampler: StatusSampler) -> None:
        self.project, self.sampler = project, sampler
        self._notifier = EventNotifier()
        self._model: bytes | None = None
        self._encoder = OverviewEncoder(sampler, project.settings.store, project.with_flags)

    @property
    def api_paths(self) -> dict[str, Any]:
        """The paths of the console, for the OpenAPI document."""
        return CONSOLE_PATHS

    async def handle(self, gateway: Gateway, request: Request, path: list[str]) -> Response:
        """Respond to a request for `/api/PATH`; raises `Problem`."""
        if request.method == "POST":
            return await self._act(gateway, request, path)
        match path:
            case ["overview"]:
                return self._overview(gateway, request)
            case ["recent"]:
                return self._recent(request)
            case ["search"]:
                return self._search(gateway, request)
            case ["trace"]:
                return await self._trace(gateway, request)
            case ["commands"]:
                return await self._commands(gateway, request)
            case ["dead-letters"]:
                return await self._dead_letters(gateway, request)
            case ["deferred"]:
                return await self._deferred(gateway, request)
            case ["processes"]:
                query_parameters(request)
                return _json(processes_document(self.project, self.sampler))
            case ["projections"]:
                query_parameters(request)
                return _json(await asyncio.to_thread(projections_document, self.project))
            case ["model"]:
                return self._schemas(request)
            case ["session"]:
                return self._session(gateway, request)
        raise Problem(404, "no such path", "GET /openapi.json lists the paths")

    async def _act(self, gateway: Gateway, request: Request, path: list[str]) -> Response:
        """Perform an operator's action, or respond with its preview (`?dry_run=true`)."""
        action = ACTIONS.get((path[0], path[-1])) if len(path) == 2 else None
        if action is None:
            raise Problem(404, "no such action", "GET /openapi.json lists the paths")
        if gateway.sender is None:
            raise Problem(405, "read-only", "this gateway performs no actions", headers={"Allow": "GET"})
        require_right(request.scope, "operate")
        query_parameters(request, "dry_run")
        require_json(request)
        access, is_dry_run = access_of(request.scope), gateway.is_dry_run(request)
        with gateway.body_budget.reservation() as reservation:
            body = await read_body(request, gateway.limits, reservation)
        try:
            action_request = msgspec.json.decode(body, type=ActionRequest)
        except (ValueError, RecursionError) as error:
            raise Problem(400, "invalid body", str(error)) from None
        response = await self._read(
            gateway, request, lambda _: action(self.project, action_request, access, is_dry_run)
        )
        if not is_dry_run:
            who = access.name or "without a token"
            self.project.report(
                f"{' '.join(reversed(path))} of {action_request.aggregate} ({who}): {bytes(response.body).decode()}"
            )
        return response

    def _overview(self, gateway: Gateway, request: Request) -> Response:
        with_changes = flag_of(query_parameters(request, "changes"), "changes")
        if "text/event-stream" not in request.headers.get("accept", ""):
            return Response(self._encoder.document(), 200, _NO_STORE, "application/json")
        loop = asyncio.get_running_loop()
        notify = self._notifier.notify

        def on_sample() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(notify)

        self.sampler.on_sample = on_sample
        return _stream(gateway, self._overviews(gateway, with_changes))

    async def _overviews(self, gateway: Gateway, with_changes: bool) -> AsyncIterator[str]:
        sent: Sample | None = None
        while not gateway.is_stopping:
            wait_for_sample = self._notifier.subscribe()
            if self.sampler.sample is not sent:
                sent, event = self._encoder.next_event(sent if with_changes else None)
                yield event
            while not await wait_for_sample(_KEEPALIVE_INTERVAL):
                yield ": \n\n"

    def _recent(self, request: Request) -> Response:
        parameters = query_parameters(request, "since_ms")
        text = parameters.get("since_ms", "0")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise Problem(400, "invalid since_ms", "milliseconds since 1970")
        return _json({"points": [point_document(point) for point in self.sampler.points_since(int(text))]})

    def _search(self, gateway: Gateway, request: Request) -> Response:
        parameters = query_parameters(request, "q", "since", "until", "aggregate", "limit")
        query = Query(
            required(parameters, "q"),
            aggregates_of(self.project, parameters),
            since_of(parameters, "1d"),
            parse_time("until", parameters.get("until")),
            limit_of(parameters, 100),
            may_see_personal(request.scope),
        )
        return _stream(gateway, search_events(gateway, self.project, query))

    async def _trace(self, gateway: Gateway, request: Request) -> Response:
        parameters = query_parameters(request, "id", "since", "aggregate")
        searched_id, since = required(parameters, "id"), since_of(parameters, "1d")
        aggregates, sees_personal = aggregates_of(self.project, parameters), may_see_personal(request.scope)
        return await self._read(
            gateway,
            request,
            lambda check: read_trace(self.project, aggregates, searched_id, since, sees_personal, check),
        )

    async def _commands(self, gateway: Gateway, request: Request) -> Response:
        parameters = query_parameters(request, "aggregate", "id", "since", "limit")
        aggregate = aggregate_of(self.project, required(parameters, "aggregate"))
        aggregate_id, since = required(parameters, "id"), since_of(parameters, "7d")
        limit, sees_personal = limit_of(parameters, 200), may_see_personal(request.scope)
        return await self._read(
            gateway,
            request,
            lambda check: read_commands(
                self.project, aggregate, aggregate_id, since, limit, sees_personal, check
            ),
        )

    async def _dead_letters(self, gateway: Gateway, request: Request) -> Response:
        parameters = query_parameters(
            request,
            "aggregate",
            "id",
            "aggregate_id",
            "type",
            "reason",
            "since",
            "before",
            "open",
            "limit",
        )
        aggregate = aggregate_of(self.project, required(parameters, "aggregate"))
        reasons = parameters.getlist("reason")
        selection = LetterSelection(
            parameters.get("id"),
            parameters.get("aggregate_id"),
            tuple(parameters.getlist("type")),
            tuple(reasons),
            parse_time("since", parameters.get("since")),
            parse_time("before", parameters.get("before")),
        )
        undecided, limit = flag_of(parameters, "open"), limit_of(parameters, 100)
        sees_personal = may_see_personal(request.scope)

        def read(_: CancelCheck) -> dict[str, Any]:
            check_letter_reasons("reason", reasons)
            return list_letters(self.project, aggregate, selection, undecided, limit, sees_personal)

        return await self._read(gateway, request, read)

    async def _deferred(self, gateway: Gateway, request: Request) -> Response:
        parameters = query_parameters(
            request, "aggregate", "id", "aggregate_id", "type", "reason", "before", "limit"
        )
        aggregate = aggregate_of(self.project, required(parameters, "aggregate"))
        selection = DeferralSelection(
            parameters.get("id"),
            parameters.get("aggregate_id"),
            tuple(parameters.getlist("type")),
            parameters.get("reason"),
            parse_time("before", parameters.get("before"), parse_deadline),
        )
        limit = limit_of(parameters, 100)
        return await self._read(
            gateway, request, lambda _: list_deferred(self.project, aggregate, selection, limit)
        )

    def _schemas(self, request: Request) -> Response:
        query_parameters(request)
        if self._model is None:
            schemas = {name: aggregate_schema(loaded) for name, loaded in self.project.aggregates.items()}
            self._model = msgspec.json.encode({"aggregates": schemas})
        return Response(self._model, media_type="application/json")

    def _session(self, gateway: Gateway, request: Request) -> Response:
        query_parameters(request)
        access = access_of(request.scope)
        return _json(
            {
                "name": access.name or None,
                "rights": [right for right in RIGHTS if right in access.rights],
                "read_only": gateway.sender is None,
                "version": __version__,
                "aggregates": {
                    name: {
                        "aggregates": follower.aggregate_count(),
                        "partitions": follower.partition_count,
                        "commands": [wire.partition(".")[2] for wire in follower.aggregate.commands],
                        "ready": follower.is_caught_up,
                        "personal": follower.aggregate.has_personal_fields,
                    }
                    for name, follower in gateway.followers.items()
                },
                "processes": [process.name for process in self.project.processes],
            }
        )

    async def _read(
        self, gateway: Gateway, request: Request, read: Callable[[CancelCheck], dict[str, Any]]
    ) -> Response:
        """Respond with a document that is read from the topics, in a thread."""
        try:
            return _json(await run_read(gateway, request, read))
        except CqrsError as error:
            raise to_problem(error) from error


def _json(document: dict[str, Any]) -> Response:
    return json_response(document, headers=_NO_STORE)


def _stream(gateway: Gateway, events: AsyncIterator[str]) -> EventStream:
    if gateway.streams >= gateway.limits.max_streams:
        raise Problem(503, "too many concurrent streams", headers=RETRY_SOON)
    gateway.streams += 1
    return EventStream(gateway, events)
