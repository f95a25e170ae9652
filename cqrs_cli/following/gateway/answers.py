"""Answers: documents, problems (RFC 9457), and the HTTP status of an outcome."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.following.gateway.gateway import Account, Problem

#: The statuses of commands that were not accepted, by the reason of their outcome; others are 422 if the command was
#: rejected, and 400 if it failed.
_BY_REASON = {
    "VERSION_CONFLICT": 409,
    "NOT_FOUND": 409,
    "ALREADY_EXISTS": 409,
    "HANDLER_ERROR": 500,
    "TOO_LARGE": 413,
    "PAYLOAD_UNAVAILABLE": 503,
}


def document(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(body), status, headers, "application/json")


#: Bytes of a large answer that are handed to the connection at once.
_PIECE = 64 * 1024


class LargeDocument(Response):
    """An answer in JSON that is sent piece by piece, and held by an account until then.

    A connection keeps in memory what its client does not take: a piece, in place of the whole.
    """

    def __init__(self, body: bytes, account: Account, headers: Mapping[str, str] | None = None) -> None:
        """Raises `Problem` 503 if all answers together are too large."""
        account.add(len(body))
        super().__init__(body, 200, headers, "application/json")
        self._account = account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._account:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            for at in range(0, len(self.body), _PIECE):
                piece, more = bytes(self.body[at : at + _PIECE]), at + _PIECE < len(self.body)
                await send({"type": "http.response.body", "body": piece, "more_body": more})


def known(request: Request, *names: str) -> QueryParams:
    """The query, if it has no other parameters than these; a misspelt one would be an answer to another question."""
    if unknown := sorted(request.query_params.keys() - set(names)):
        raise Problem(400, "unknown parameter", f"{unknown[0][:60]!r}; known: {', '.join(names) or 'none'}")
    return request.query_params


def etag(version: int, kid: str | None = None) -> str:
    """The entity tag of an aggregate at a version; with the values of personal fields that the key `kid` opens."""
    return f'"{version}"' if kid is None else f'"{version}-{kid}"'


def outcome_status(outcome: CommandOutcome) -> int:
    """The HTTP status of an outcome."""
    if outcome.ok:
        return 200
    if outcome.status == "deferred":
        return 202
    return _BY_REASON.get(outcome.reason or "", 400 if outcome.status == "failed" else 422)


def outcome_answer(outcome: CommandOutcome) -> Response:
    """An outcome as an answer: itself, or a problem that holds it."""
    status = outcome_status(outcome)
    if status < 300:
        headers = {"ETag": etag(outcome.version)} if outcome.version else None
        return document(outcome, status, headers)
    detail = outcome.message or ""
    more = {"reason": outcome.reason, "outcome": outcome}
    return problem(Problem(status, outcome.reason or outcome.status, detail, more))


def problem(found: Problem) -> Response:
    """A problem as an answer."""
    members = {"title": found.title, "status": found.status, "detail": found.detail or None, **found.more}
    body = {name: value for name, value in members.items() if value is not None}
    return Response(
        msgspec.json.encode(body), found.status, found.headers or None, "application/problem+json"
    )


async def answer_problem(_: Request, error: Exception) -> Response:
    """Starlette's handler of `Problem`."""
    assert isinstance(error, Problem)
    return problem(error)
