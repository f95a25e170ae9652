"""Responses: documents, problems (RFC 9457), and the HTTP status of an outcome."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.gateway.gateway import Problem, Reservation

#: Reason of an outcome → HTTP status. For other reasons, the status is 422 if the command was rejected, and 400 if it
#: failed.
_STATUS_BY_REASON = {
    "VERSION_CONFLICT": 409,
    "NOT_FOUND": 409,
    "ALREADY_EXISTS": 409,
    "HANDLER_ERROR": 500,
    "TOO_LARGE": 413,
    "PAYLOAD_UNAVAILABLE": 503,
}


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(body), status, headers, "application/json")


#: Maximum bytes of a piece of a large response.
_PIECE_BYTES = 64 * 1024


class LargeDocument(Response):
    """A JSON response that is sent in pieces. Its bytes stay reserved until the last piece is sent.

    The connection buffers bytes that its client has not received yet: with pieces, at most one piece.
    """

    def __init__(
        self, body: bytes, reservation: Reservation, headers: Mapping[str, str] | None = None
    ) -> None:
        """Raises `Problem` 503 if all responses together are too large."""
        reservation.reserve(len(body))
        super().__init__(body, 200, headers, "application/json")
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._reservation:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            for start in range(0, len(self.body), _PIECE_BYTES):
                end = start + _PIECE_BYTES
                piece, has_more = bytes(self.body[start:end]), end < len(self.body)
                await send({"type": "http.response.body", "body": piece, "more_body": has_more})


def query_parameters(request: Request, *names: str) -> QueryParams:
    """Return the query parameters; raises `Problem` 400 for an unknown name, such as a misspelt one."""
    if unknown := sorted(request.query_params.keys() - set(names)):
        raise Problem(400, "unknown parameter", f"{unknown[0][:60]!r}; known: {', '.join(names) or 'none'}")
    return request.query_params


def nullify_personal(document: dict[str, Any], aggregate: Aggregate) -> None:
    """Set the personal fields of the state and of the events in a document to null, and list them in `redacted`."""
    events = ((event, "data", aggregate.events.get(event["type"])) for event in document.get("history", ()))
    for container, member, cls in [(document, "state", aggregate.state), *events]:
        if cls is not None and (fields := aggregate.personal.fields_of(cls)):
            data = aggregate.personal.nullify_data(cls, msgspec.json.encode(container[member]))
            container[member], container["redacted"] = Raw(data), [field.wire_name for field in fields]


def etag(version: int, kid: str | None = None) -> str:
    """Return the entity tag of an aggregate. `kid`: the id of the data key that decrypted its personal fields; None if
    they are null.
    """
    return f'"{version}"' if kid is None else f'"{version}-{kid}"'


def outcome_status(outcome: CommandOutcome) -> int:
    """Return the HTTP status of an outcome."""
    if outcome.ok:
        return 200
    if outcome.status == "deferred":
        return 202
    return _STATUS_BY_REASON.get(outcome.reason or "", 400 if outcome.status == "failed" else 422)


def outcome_response(outcome: CommandOutcome) -> Response:
    """Return an outcome as a response: the outcome itself, or a problem document that contains it."""
    status = outcome_status(outcome)
    if status < 300:
        headers = {"ETag": etag(outcome.version)} if outcome.version else None
        return json_response(outcome, status, headers)
    detail = outcome.message or ""
    extra_members = {"reason": outcome.reason, "outcome": outcome}
    return problem_response(Problem(status, outcome.reason or outcome.status, detail, extra_members))


def problem_response(error: Problem) -> Response:
    """Return a problem as a response."""
    members = {
        "title": error.title,
        "status": error.status,
        "detail": error.detail or None,
        **error.extra_members,
    }
    body = {name: value for name, value in members.items() if value is not None}
    return Response(
        msgspec.json.encode(body), error.status, error.headers or None, "application/problem+json"
    )


async def problem_handler(_: Request, error: Exception) -> Response:
    """Starlette's exception handler for `Problem`."""
    assert isinstance(error, Problem)
    return problem_response(error)
