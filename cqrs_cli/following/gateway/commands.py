"""The handler of commands: sends a request's command to the topic, and responds with the outcome."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from msgspec.json import decode as decode_json
from starlette.requests import Request
from starlette.responses import Response

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.envelope import ArgumentNames, Attributes, Attribution, ReadyCommand, create_command
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.client.producer import CommandTooLargeError
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.erasure import ERASE
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.errors import CqrsError, NoOutcomeError, PayloadUnavailableError, UnavailableError, UsageError
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import Gateway, Problem
from cqrs_cli.following.gateway.guard import access_of, may_see_personal, require_json, require_right
from cqrs_cli.following.gateway.responses import json_response, nullify_personal, outcome_response
from cqrs_cli.following.gateway.topic_reads import CancelCheck, run_read
from cqrs_cli.telemetry.otel.tracing import begin_sending

#: The CloudEvents source of commands sent over HTTP.
GATEWAY_SOURCE = "/cqrs/gateway"

#: Default timeout in seconds for an outcome; a request overrides it with `Prefer: wait=5` (RFC 7240).
_OUTCOME_TIMEOUT = 10.0

_HTTP_ARGUMENT_NAMES = ArgumentNames("the id", "Idempotency-Key", "If-Match", "Correlation-Id")


async def handle_command(
    gateway: Gateway, request: Request, body: bytes, aggregate: str, aggregate_id: str, command: str
) -> Response:
    """Send a command, wait for its outcome, and respond with the outcome."""
    if gateway.sender is None:
        raise Problem(405, "read-only", "this gateway accepts no commands", headers={"Allow": "GET"})
    require_right(request.scope, "send")
    require_json(request)
    follower = gateway.follower(aggregate)
    wire_type, data = read_request_command(follower.aggregate, command, body)
    if wire_type == ERASE:
        require_right(request.scope, "erase")
    attributes, is_dry_run = (
        read_attributes(request.headers, access_of(request.scope).name),
        gateway.is_dry_run(request),
    )
    attributes, sending = (attributes, None) if is_dry_run else begin_sending(attributes)
    try:
        ready_command = create_command(
            aggregate, aggregate_id, wire_type, data, GATEWAY_SOURCE, attributes, names=_HTTP_ARGUMENT_NAMES
        )
    except UsageError as error:
        raise Problem(400, "invalid command", str(error)) from None
    if is_dry_run:
        return await _simulate(gateway, request, follower, ready_command, attributes.id is not None)
    pending_outcome = PendingOutcome(
        ready_command,
        follower.topics,
        gateway.parse_timeout(_preferred_wait(request.headers), _OUTCOME_TIMEOUT),
        sending,
    )
    gateway.sender.submit(pending_outcome)
    extra_members = {"id": ready_command.id}
    try:
        outcome = await pending_outcome
        follower.check_for_partition(outcome.partition)
        return outcome_response(outcome)
    except NoOutcomeError as error:
        raise Problem(504, "no outcome in time", str(error), extra_members) from None
    except PayloadUnavailableError as error:
        retry = {"Retry-After": "1"}
        raise Problem(503, "the payload store does not respond", str(error), extra_members, retry) from None
    except UnavailableError as error:
        raise Problem(
            503, "Kafka does not respond", str(error), extra_members, {"Retry-After": "1"}
        ) from None
    except CommandTooLargeError as error:
        raise Problem(413, error.code, str(error), extra_members) from None
    except CqrsError as error:
        raise Problem(500, error.code, str(error), extra_members) from None


async def _simulate(
    gateway: Gateway,
    request: Request,
    follower: AggregateFollower,
    ready_command: ReadyCommand,
    ids_may_repeat: bool,
) -> Response:
    """Respond with the outcome, events and state that a command would have now. Nothing is sent."""
    settings = gateway.decision_settings
    if settings is None:
        raise Problem(404, "no dry run", "this gateway does not know the settings of the owners")
    sees_personal, aggregate = may_see_personal(request.scope), follower.aggregate

    def simulate(_: CancelCheck) -> dict[str, Any]:
        connection, topics = follower.connection, follower.topics
        with closing(
            Simulation(connection, topics, aggregate, settings, [ready_command], ids_may_repeat)
        ) as simulation:
            simulated = simulation.decide(ready_command)
            state = simulation.state_of(ready_command.subject)
        document: dict[str, Any] = {
            "outcome": CommandOutcome.from_record(simulated.envelope, ready_command),
            "state": aggregate.decider.initial if state is None else state.state,
            "version": 0 if state is None else state.version,
            "history": [decode_json(value) for value in simulated.events],
            "undecided": simulation.undecided,
        }
        if not sees_personal:
            nullify_personal(document, aggregate)
        document["events"] = document.pop("history")
        return document

    try:
        document = await run_read(gateway, request, simulate)
    except CqrsError as error:
        raise Problem(503 if error.exit_code == 4 else 500, error.code, error.message) from error
    return json_response(document, headers={"Cache-Control": "no-store"})


def read_request_command(aggregate: Aggregate, command: str, body: bytes) -> tuple[str, bytes]:
    """Return the wire type and the encoded data of one of the aggregate's commands or of `cqrs.Erase`.

    Raises `Problem` 404, 400 or 500, without personal values in the text.
    """
    wire_type, command_class, decode = _command_of(aggregate, command)
    try:
        return wire_type, encode_json(decode(body or b"{}"))
    except (ValueError, RecursionError) as error:
        problem = aggregate.personal.redact_mismatch(str(error), command_class, body)
        raise Problem(400, "INVALID_PAYLOAD", problem) from None
    except (
        BaseException
    ) as error:  # the command's `__post_init__` may raise anything; signals do not raise here
        raise Problem(500, "HANDLER_ERROR", aggregate.describe_error(error)) from aggregate.redact_error(
            error
        )


def _command_of(aggregate: Aggregate, command: str) -> tuple[str, type[Command], Callable[[bytes], Command]]:
    reserved = RESERVED_COMMANDS.get(command)
    if reserved is not None and reserved.is_for_services and reserved.is_accepted_by(aggregate):
        return command, reserved.cls, reserved.decode
    wire_type = f"{aggregate.name}.{command}"
    decode = aggregate.decode_command.get(wire_type)
    if decode is None:
        known_names = sorted(name.partition(".")[2] for name in aggregate.commands)
        raise Problem(404, "no such command", f"known commands of {aggregate.name}: {', '.join(known_names)}")
    return wire_type, aggregate.commands[wire_type], decode


def read_attributes(headers: Mapping[str, str], actor: str = "") -> Attributes:
    """Return the command attributes in the headers of a request; raises `Problem` 400. `actor`: the token's name."""
    propagated: dict[str, Any] = {name: _header_text(headers, name) for name in PROPAGATED}
    return Attributes(
        id=_header_text(headers, "idempotency-key"),
        expected=_expected_version(headers),
        correlation=_header_text(headers, "correlation-id"),
        attribution=Attribution(actor),
        **propagated,
    )


def _header_text(headers: Mapping[str, str], name: str) -> str | None:
    """Return a header as text, in UTF-8 if its bytes are valid UTF-8, else in Latin-1; None without the header.

    HTTP defines no encoding of headers. Starlette decodes Latin-1, but most clients send UTF-8.
    """
    value = headers.get(name)
    try:
        return None if value is None else value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _expected_version(headers: Mapping[str, str]) -> str | None:
    """Return the expected version from `If-Match: "7"`, `If-Match: *` or `If-None-Match: *`; raises `Problem` 400."""
    if_match, if_none_match = headers.get("if-match"), headers.get("if-none-match")
    if if_match is not None and if_none_match is not None:
        raise Problem(400, "If-Match and If-None-Match exclude each other")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise Problem(400, "invalid If-None-Match", "only * is supported: the aggregate must not exist")
        return "none"
    if if_match is None:
        return None
    tag = if_match.strip()
    if tag == "*":
        return "exists"
    version = tag[1:-1] if len(tag) > 1 and tag[0] == tag[-1] == '"' else ""
    version = version.partition("-")[0]  # a tag like "7-kid" is from a response with personal values
    if not (version.isascii() and version.isdigit()):
        raise Problem(
            400,
            "invalid If-Match",
            f'expected a version in quotation marks, such as "7", or *; found {tag[:40]}',
        )
    return version


def _preferred_wait(headers: Mapping[str, str]) -> str | None:
    """Return the seconds in `Prefer: wait=5`, as text."""
    for part in headers.get("prefer", "").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait":
            return value.strip()
    return None
