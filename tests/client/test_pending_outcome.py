"""Commands whose outcome is awaited with asyncio."""

import asyncio
import gc
from typing import Any

import pytest

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.errors import CqrsError, NoOutcomeError
from cqrs_cli.kafka.topics.topics import Topics


def test_late_failure_is_not_logged() -> None:
    """Without a caller, asyncio would log the error with a useless traceback."""
    logged: list[dict[str, Any]] = []

    async def await_outcome() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
        pending = PendingOutcome(
            ReadyCommand("c-1", "counter", "a", "counter.Count", b"{}"), Topics("counter"), 0.01
        )
        with pytest.raises(NoOutcomeError):
            await pending
        pending.fail(CqrsError("the client was closed"))
        await asyncio.sleep(0)

    asyncio.run(await_outcome())
    gc.collect()
    assert logged == []
