"""Handlers for states, histories and lists of aggregates."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from msgspec import Raw
from msgspec.json import encode as encode_json
from starlette.requests import Request
from starlette.responses import Response

from cqrs_cli.client import history as histories
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.following.gateway.answers import LargeDocument, document, etag, known
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import Gateway, Problem
from cqrs_cli.following.gateway.guard import sees_personal
from cqrs_cli.following.gateway.turns import GoingOn, in_turn


class FoldedDocument(NamedTuple):
    """The JSON document of an aggregate at a version, folded from the topic.

    `opens`: personal fields are decrypted. `kid`: the id of the aggregate's current data key, or "".
    """

    version: int
    body: bytes
    opens: bool
    kid: str

    def headers(self, with_tag: bool = True) -> dict[str, str]:
        """Return the response headers. Clients and proxies must not store a document with personal values."""
        tag = {"ETag": etag(self.version, self.kid if self.opens else None)} if with_tag else {}
        return tag | ({"Cache-Control": "no-store"} if self.opens else {})


async def read_present(gateway: Gateway, request: Request, aggregate: str, aggregate_id: str) -> Response:
    """Respond with the aggregate: now, at a version, at a time, or once it has reached a version."""
    follower, asked = gateway.follower(aggregate), known(request, "version", "at", "at_least", "wait")
    if "version" in asked and "at" in asked:
        raise Problem(400, "version and at exclude each other")
    if "version" in asked or "at" in asked:
        wanted = asked.get("version"), asked.get("at")
        return await _read_past(gateway, request, follower, aggregate_id, *wanted)
    least = _number("at_least", asked.get("at_least"), 0)
    patience = gateway.patience(asked.get("wait"), 0.0)
    found = await _reached(gateway, follower, aggregate_id, least, patience)
    if found is None:
        raise Problem(404, "it does not exist", f"{aggregate} {aggregate_id} has no events")
    if not _opens(request, follower) and etag(found.version) in _tags(request.headers.get("if-none-match")):
        return Response(status_code=304, headers={"ETag": etag(found.version)})
    if _opens(request, follower):
        wanted = str(found.version), None
        return await _read_past(gateway, request, follower, aggregate_id, *wanted)
    body = {"aggregate": aggregate, "id": aggregate_id, "version": found.version, "state": Raw(found.state)}
    headers = {"ETag": etag(found.version), "Cache-Control": "no-cache"}
    return LargeDocument(encode_json(body), gateway.answers.account(), headers)


async def read_history(gateway: Gateway, request: Request, aggregate: str, aggregate_id: str) -> Response:
    """Respond with the aggregate and its events."""
    follower = gateway.follower(aggregate)
    known(request)
    found = await _folded(gateway, request, follower, aggregate_id, None, events=True)
    if found.version == 0:
        raise Problem(404, "it does not exist", f"{aggregate} {aggregate_id} has no events")
    return LargeDocument(found.body, gateway.answers.account(), found.headers(with_tag=False))


async def read_page(gateway: Gateway, request: Request, aggregate: str) -> Response:
    """Respond with a page of aggregates, ordered by id."""
    follower, asked = gateway.follower(aggregate), known(request, "prefix", "after", "limit")
    limit = _number("limit", asked.get("limit"), 100)
    if not 1 <= limit <= gateway.limits.page:
        raise Problem(400, "limit", f"1 to {gateway.limits.page}, not {limit}")
    found = follower.page(asked.get("prefix", ""), asked.get("after", ""), limit + 1)
    body = {
        "aggregate": aggregate,
        "aggregates": [{"id": name, "version": saved.version} for name, saved in found[:limit]],
        "next": found[limit - 1][0] if len(found) > limit else None,
    }
    return document(body)


async def _reached(
    gateway: Gateway, follower: AggregateFollower, aggregate_id: str, least: int, patience: float
) -> StoredState | None:
    """Return the aggregate once it is at version `least`; raises `Problem` 504 after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        arrived = gateway.pulses[follower.aggregate.name].waiting()
        found = follower.saved(aggregate_id)
        version = found.version if found is not None else 0
        if version >= least:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            raise Problem(504, "not at that version yet", f"it is at {version}", {"version": version})
        await arrived(left)


async def _read_past(
    gateway: Gateway,
    request: Request,
    follower: AggregateFollower,
    aggregate_id: str,
    version: str | None,
    at: str | None,
) -> Response:
    wanted = None if version is None else _number("version", version, 0)
    found = await _folded(gateway, request, follower, aggregate_id, version or at, events=False)
    if found.version == 0 or (wanted is not None and found.version < wanted):
        raise Problem(404, "it was not there", f"version {found.version} is the last until then")
    return LargeDocument(found.body, gateway.answers.account(), found.headers())


async def _folded(
    gateway: Gateway,
    request: Request,
    follower: AggregateFollower,
    aggregate_id: str,
    at: str | None,
    *,
    events: bool,
) -> FoldedDocument:
    """Fold the aggregate from the topic, with or without its events in the document.

    Personal fields are decrypted if the request may see them.
    """
    try:
        within = histories.parse_at(at)
    except UsageError as error:
        raise Problem(400, "at", error.message.removeprefix("--at: ")) from None

    opens = _opens(request, follower)

    def read(going_on: GoingOn) -> FoldedDocument:
        connection, topics = follower.connection, follower.topics
        key = aggregate_id.encode()
        places = histories.find_ranges(connection, topics, key, follower.partitioner)
        with closing(follower.open_events(aggregate_id)) as opener:
            view = opener if opens else follower.masker
            records = histories.read_records(connection, key, places, going_on, view)
            if events:
                records = _bounded(records, gateway.limits.history)
            found = histories.fold_history(follower.aggregate, aggregate_id, records, within, events=events)
            keys = (opener.in_force(place.partition, aggregate_id) for place in places if opens)
            used = next(filter(None, keys), None)
        document = histories.history_document(follower.aggregate.name, aggregate_id, found, events=events)
        return FoldedDocument(found.version, encode_json(document), opens, "" if used is None else used.kid)

    try:
        return await in_turn(gateway, request, read)
    except CqrsError as error:
        raise Problem(503 if error.exit_code == 4 else 500, error.code, error.message) from error


def _bounded(
    records: Iterable[tuple[histories.LogRange, Record]], most: int
) -> Iterator[tuple[histories.LogRange, Record]]:
    """Yield the records; raises `Problem` 413 once they have more than `most` bytes."""
    size = 0
    for place, record in records:
        size += len(record.value or b"")
        if size > most:
            raise Problem(
                413, "a long history", f"its events have more than {most:,} bytes: take them as a stream"
            )
        yield place, record


def _opens(request: Request, follower: AggregateFollower) -> bool:
    """Return True if the aggregate has personal fields and the request may see their values."""
    return follower.aggregate.has_personal_fields and sees_personal(request.scope)


def _number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Problem(400, name, f"not a number: {text[:40]!r}")
    return int(text)


def _tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",")}
