from datetime import timedelta
from typing import Any

import anyio
import pytest

from cqrs_cli.cli.agents.tools import AgentTools
from cqrs_cli.errors import UsageError


class Tools(AgentTools):
    """Tools whose calls of `cqrs send` all succeed."""

    def __init__(self, dedup_window: timedelta = timedelta(hours=24)) -> None:
        super().__init__([], dedup_window, clock=lambda: self.now)
        self.now = 1_000.0
        self.calls: list[Any] = []

    async def _send(self, document: dict[str, Any], option: str) -> Any:
        self.calls.append((document, option))
        return {}


def send(tools: Tools, token: str | None = None) -> dict[str, Any]:
    return anyio.run(tools.send, "order", "o-1", "Place", {"customer": "ann"}, None, token)


@pytest.mark.parametrize(("dedup_window", "lifetime"), [(24, 3600), (1, 1800)])
def test_old_tokens_send_nothing(dedup_window: int, lifetime: int) -> None:
    """Owners remember the id of a command for a limited time, so a later repetition would be decided again."""
    tools = Tools(timedelta(hours=dedup_window))
    token = send(tools)["token"]
    tools.now += lifetime - 1
    for _ in range(2):
        assert send(tools, token)["sent"]
    assert tools.calls[1] == tools.calls[2]
    tools.now += 1
    with pytest.raises(UsageError, match="or is expired"):
        send(tools, token)
    assert len(tools.calls) == 3


def test_dry_runs_remove_expired_dry_runs() -> None:
    tools = Tools()
    send(tools)
    tools.now += 3600
    token = send(tools)["token"]
    assert list(tools._dry_runs) == [token]
