"""Work and memory are released when the client disconnects."""

import asyncio
from typing import NoReturn

import pytest
from starlette.requests import Request
from starlette.types import Message

from cqrs_cli.following.gateway.event_buffer import EventBuffer, StreamEvent
from cqrs_cli.following.gateway.gateway import Budget, Gateway, Problem
from cqrs_cli.following.gateway.responses import LargeDocument
from cqrs_cli.following.gateway.topic_reads import CancelCheck, run_read


async def disconnect() -> Message:
    return {"type": "http.disconnect"}


def test_work_ends_with_its_client() -> None:
    def read_forever(check_cancelled: CancelCheck) -> NoReturn:
        while True:
            check_cancelled()

    gateway = Gateway({}, None)
    with pytest.raises(Problem, match="the client disconnected"):
        asyncio.run(run_read(gateway, Request({"type": "http"}, disconnect), read_forever))


def test_budget_is_shared() -> None:
    budget = Budget(100, "answers")
    with budget.reservation() as first, budget.reservation() as second:
        first.reserve(80)
        with pytest.raises(Problem) as error:
            second.reserve(21)
        assert (error.value.status, error.value.headers) == (503, {"Retry-After": "1"})
        second.reserve(20)
    assert budget.reserved == 0


def test_single_reservation_may_exceed_the_budget() -> None:
    budget = Budget(100, "answers")
    with budget.reservation() as reservation:
        reservation.reserve(300)


def test_large_responses_are_sent_in_pieces() -> None:
    budget, sent, held = Budget(10**6, "answers"), list[Message](), set[int]()

    async def send(message: Message) -> None:
        sent.append(message)
        held.add(budget.reserved)

    body = bytes(range(250)) * 1000
    asyncio.run(LargeDocument(body, budget.reservation())({"type": "http"}, disconnect, send))
    pieces = [message["body"] for message in sent[1:]]
    assert b"".join(pieces) == body and max(map(len, pieces)) <= 64 * 1024
    assert [message["more_body"] for message in sent[1:]] == [True] * 3 + [False]
    assert (held, budget.reserved) == ({len(body)}, 0)


def test_pages_of_streams_are_small() -> None:
    buffer = EventBuffer({0: 0})
    for offset in range(3):
        buffer.append(StreamEvent(0, offset, "x", "t", "e" * 150_000))
    assert [event.offset for event in buffer.events_from(0, 0, 200) or ()] == [0]
    assert [event.offset for event in buffer.events_from(0, 2, 200) or ()] == [2]
