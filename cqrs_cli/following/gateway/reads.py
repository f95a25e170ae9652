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
from cqrs_cli.client.aggregate_logs import EventRange, find_ranges, read_records
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import Gateway, Problem
from cqrs_cli.following.gateway.guard import may_see_personal
from cqrs_cli.following.gateway.responses import (
    LargeDocument,
    etag,
    json_response,
    nullify_personal,
    query_parameters,
)
from cqrs_cli.following.gateway.topic_reads import CancelCheck, run_read

#: The numbers that a parameter accepts, unless it has a smaller range.
_NUMBERS = range(10**18)


class FoldedDocument(NamedTuple):
    """The JSON document of an aggregate at a version, folded from the topic."""

    version: int
    body: bytes  # JSON
    has_personal_values: bool  # True if the body has decrypted personal values
    kid: str  # id of the aggregate's current data key; empty without a key

    def headers(self, with_tag: bool = True) -> dict[str, str]:
        """Return the response headers. Clients and proxies must not store a document with personal values."""
        tag = {"ETag": etag(self.version, self.kid if self.has_personal_values else None)} if with_tag else {}
        return tag | ({"Cache-Control": "no-store"} if self.has_personal_values else {})


async def handle_state(gateway: Gateway, request: Request, aggregate: str, aggregate_id: str) -> Response:
    """Respond with the aggregate's state: now, at a version or time, or once it has reached a version."""
    follower, parameters = (
        gateway.follower(aggregate),
        query_parameters(request, "version", "at", "at_least", "wait"),
    )
    if "version" in parameters and "at" in parameters:
        raise Problem(400, "version and at cannot be combined")
    if "version" in parameters or "at" in parameters:
        version, at = parameters.get("version"), parameters.get("at")
        return await _past_response(gateway, request, follower, aggregate_id, version, at)
    min_version = _parse_number("at_least", parameters.get("at_least"), 0)
    timeout = gateway.parse_timeout(parameters.get("wait"), 0.0)
    stored_state = await _wait_for_version(gateway, follower, aggregate_id, min_version, timeout)
    if stored_state is None:
        raise Problem(404, "no such aggregate", f"{aggregate} {aggregate_id} has no events")
    if _may_decrypt(request, follower):
        return await _past_response(gateway, request, follower, aggregate_id, str(stored_state.version), None)
    if etag(stored_state.version) in _entity_tags(request.headers.get("if-none-match")):
        return Response(status_code=304, headers={"ETag": etag(stored_state.version)})
    body = {
        "aggregate": aggregate,
        "id": aggregate_id,
        "version": stored_state.version,
        "state": Raw(stored_state.state),
    }
    nullify_personal(body, follower.aggregate)
    headers = {"ETag": etag(stored_state.version), "Cache-Control": "no-cache"}
    return LargeDocument(encode_json(body), gateway.response_budget.reservation(), headers)


async def handle_history(gateway: Gateway, request: Request, aggregate: str, aggregate_id: str) -> Response:
    """Respond with the aggregate and its events."""
    follower = gateway.follower(aggregate)
    query_parameters(request)
    folded = await _fold_document(gateway, request, follower, aggregate_id, None, events=True)
    if folded.version == 0:
        raise Problem(404, "no such aggregate", f"{aggregate} {aggregate_id} has no events")
    return LargeDocument(folded.body, gateway.response_budget.reservation(), folded.headers(with_tag=False))


async def handle_list(gateway: Gateway, request: Request, aggregate: str) -> Response:
    """Respond with a page of aggregates, ordered by id."""
    follower, parameters = gateway.follower(aggregate), query_parameters(request, "prefix", "after", "limit")
    page_size = gateway.limits.page_size
    limit = _parse_number("limit", parameters.get("limit"), min(100, page_size), range(1, page_size + 1))
    page = follower.list_aggregates(parameters.get("prefix", ""), parameters.get("after", ""), limit + 1)
    body = {
        "aggregate": aggregate,
        "aggregates": [{"id": name, "version": stored_state.version} for name, stored_state in page[:limit]],
        "next": page[limit - 1][0] if len(page) > limit else None,
    }
    return json_response(body)


async def _wait_for_version(
    gateway: Gateway, follower: AggregateFollower, aggregate_id: str, min_version: int, timeout: float
) -> StoredState | None:
    """Return the aggregate once it is at version `min_version`; raises `Problem` 504 after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        wait_for_events = gateway.notifiers[follower.aggregate.name].subscribe()
        stored_state = follower.state_of(aggregate_id)
        version = stored_state.version if stored_state is not None else 0
        if version >= min_version:
            return stored_state
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Problem(
                504,
                "version not reached in time",
                f"the aggregate is at version {version}",
                {"version": version},
            )
        await wait_for_events(remaining)


async def _past_response(
    gateway: Gateway,
    request: Request,
    follower: AggregateFollower,
    aggregate_id: str,
    version: str | None,
    at: str | None,
) -> Response:
    requested_version = None if version is None else _parse_number("version", version, 0)
    folded = await _fold_document(gateway, request, follower, aggregate_id, version or at, events=False)
    name = f"{follower.aggregate.name} {aggregate_id}"
    if folded.version == 0 and requested_version:
        raise Problem(404, "no such aggregate", f"{name} has no events")
    if folded.version == 0:
        raise Problem(404, "the aggregate did not exist then", f"{name} had no events")
    if requested_version is not None and folded.version < requested_version:
        detail = f"{name} is at version {folded.version}, not {requested_version}"
        raise Problem(404, "no such version", detail)
    return LargeDocument(folded.body, gateway.response_budget.reservation(), folded.headers())


async def _fold_document(
    gateway: Gateway,
    request: Request,
    follower: AggregateFollower,
    aggregate_id: str,
    version_or_time: str | None,
    *,
    events: bool,
) -> FoldedDocument:
    """Fold the aggregate from the topic, with or without its events in the document.

    Personal fields are decrypted if the request may see them, otherwise null.
    """
    try:
        is_included = histories.parse_at(version_or_time)
    except UsageError as error:
        raise Problem(400, "invalid at", error.message.removeprefix("--at: ")) from None

    decrypts = _may_decrypt(request, follower)

    def read(check_cancelled: CancelCheck) -> FoldedDocument:
        connection, topics = follower.connection, follower.topics
        key = aggregate_id.encode()
        ranges = find_ranges(connection, topics, key, follower.partitioner)
        with closing(follower.open_codec(aggregate_id) if decrypts else follower.redacting_codec) as codec:
            records = read_records(connection, key, ranges, codec, check_cancelled)
            if events:
                records = _limit_bytes(records, gateway.limits.history_bytes)
            history = histories.fold_history(follower.aggregate, records, is_included, events=events)
            active_keys = (codec.current_key(event_range.partition, aggregate_id) for event_range in ranges)
            active_key = next(filter(None, active_keys), None)
        document = histories.history_document(follower.aggregate.name, aggregate_id, history, events=events)
        if not decrypts:
            nullify_personal(document, follower.aggregate)
        return FoldedDocument(
            history.version, encode_json(document), decrypts, "" if active_key is None else active_key.kid
        )

    try:
        return await run_read(gateway, request, read)
    except CqrsError as error:
        raise Problem(503 if error.exit_code == 4 else 500, error.code, error.message) from error


def _limit_bytes(
    records: Iterable[tuple[EventRange, Record]], limit: int
) -> Iterator[tuple[EventRange, Record]]:
    """Yield the records; raises `Problem` 413 once they have more than `limit` bytes."""
    size = 0
    for event_range, record in records:
        size += len(record.value or b"")
        if size > limit:
            raise Problem(
                413,
                "the history is too long",
                f"its events have more than {limit:,} bytes: read them as a stream",
            )
        yield event_range, record


def _may_decrypt(request: Request, follower: AggregateFollower) -> bool:
    """Return True if the aggregate has personal fields and the request may see their values."""
    return follower.aggregate.has_personal_fields and may_see_personal(request.scope)


def _parse_number(name: str, text: str | None, default: int, allowed: range = _NUMBERS) -> int:
    """Return the number of the parameter `name`, or the default without a text; raises `Problem` 400 for a text that is
    not one of the allowed numbers.
    """
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if number not in allowed:
        detail = f"{name} must be a whole number from {allowed[0]} to {allowed[-1]}, found {text[:40]!r}"
        raise Problem(400, f"invalid {name}", detail)
    return number


def _entity_tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",")}
