"""Erasing over HTTP needs its own right, and no response contains a personal value."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.gateway.commands import read_request_command
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.following.gateway.guard import AuthMiddleware, require_right
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.following.gateway.responses import problem_response
from cqrs_cli.following.gateway.token import Access, Tokens
from tests.core import tally
from tests.core.personal.customer import CUSTOMER
from tests.core.personal.leaking_aggregate import LEAKING

GENERAL_TOKEN, ERASE_TOKEN = "0123456789abcdef", "fedcba9876543210"
TOKENS = {GENERAL_TOKEN: Access(), ERASE_TOKEN: Access(frozenset({"read", "erase"}))}


async def eraser(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        require_right(scope, "erase")
        answer = Response("erased")
    except Problem as problem:
        answer = problem_response(problem)
    await answer(scope, receive, send)


def status_with(token_sent: str, tokens: Tokens) -> int:
    """Return the HTTP status of a request to erase with the token `token_sent`."""
    headers = [(b"host", b"x"), (b"authorization", b"Bearer " + token_sent.encode())]
    scope = {"type": "http", "method": "POST", "path": "/customer/c-1/cqrs.Erase", "headers": headers}
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    asyncio.run(AuthMiddleware(eraser, (), tokens)(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("token_sent", "tokens", "expected"),
    [
        (ERASE_TOKEN, TOKENS, 200),
        (GENERAL_TOKEN, TOKENS, 403),
        ("", {}, 403),
        ("", TOKENS, 401),
        ("wrong", TOKENS, 401),
    ],
)
def test_erasing_needs_its_right(token_sent: str, tokens: Tokens, expected: int) -> None:
    assert status_with(token_sent, tokens) == expected


def test_erase_is_a_command_of_personal_aggregates() -> None:
    assert read_request_command(CUSTOMER, "cqrs.Erase", b"") == ("cqrs.Erase", b"{}")
    for aggregate, command in [(tally.AGGREGATE, "cqrs.Erase"), (CUSTOMER, "cqrs.Cancel")]:
        with pytest.raises(Problem) as refused:
            read_request_command(aggregate, command, b'{"id":"7"}')
        assert refused.value.status == 404


@pytest.mark.parametrize(("mode", "expected"), [("unfit", 400), ("undone", 500), ("quit", 500)])
def test_errors_have_no_personal_value(mode: str, expected: int) -> None:
    """The status is 400 after a `ValueError` of the command's class, and 500 after any other exception of its code."""
    with pytest.raises(Problem) as refused:
        read_request_command(LEAKING, "Greet", b'{"name":"Ann-Sophie","mode":"%s"}' % mode.encode())
    assert (refused.value.status, "Ann" in refused.value.detail) == (expected, False)


@pytest.mark.parametrize(
    ("aggregate", "read_only", "erases", "described"),
    [
        (CUSTOMER, False, True, True),
        (CUSTOMER, False, False, False),
        (CUSTOMER, True, True, False),
        (tally.AGGREGATE, False, True, False),
    ],
)
def test_description_has_what_is_served(
    aggregate: Aggregate, read_only: bool, erases: bool, described: bool
) -> None:
    api = describe_api([aggregate], read_only, True, erases)
    assert (f"/{aggregate.name}/{{id}}/cqrs.Erase" in api["paths"]) == described
    assert ("Erase" in api["components"]["schemas"]) == described


def test_personal_fields_of_states_permit_null() -> None:
    schemas = describe_api([CUSTOMER], False, True)["components"]["schemas"]
    assert schemas["Customer"]["properties"]["name"]["anyOf"][1] == {"type": "null"}
    assert "anyOf" not in schemas["Register"]["properties"]["name"]
