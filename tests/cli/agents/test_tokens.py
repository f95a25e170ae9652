from typing import Any

import anyio
import pytest

from cqrs_cli.cli.agents.tools import TOKEN_LIFETIME, AgentTools
from cqrs_cli.errors import UsageError


class Tools(AgentTools):
    """Tools whose calls of `cqrs send` all succeed."""

    def __init__(self) -> None:
        super().__init__([], clock=lambda: self.now)
        self.now = 1_000.0
        self.calls: list[Any] = []

    async def _send(self, document: dict[str, Any], option: str) -> Any:
        self.calls.append((document, option))
        return {}


def send(tools: Tools, token: str | None = None) -> dict[str, Any]:
    return anyio.run(tools.send, "order", "o-1", "Place", {"customer": "ann"}, None, token)


def test_old_tokens_send_nothing() -> None:
    """Owners remember the id of a command for a limited time, so a later repetition would be decided again."""
    tools = Tools()
    token = send(tools)["token"]
    for _ in range(2):
        assert send(tools, token)["sent"]
    assert tools.calls[1] == tools.calls[2]
    tools.now += TOKEN_LIFETIME
    with pytest.raises(UsageError, match="no dry run of this command within the last hour"):
        send(tools, token)
    assert len(tools.calls) == 3
