"""The MCP server on stdin and stdout."""

import functools
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.agents.tools import AgentTools
from cqrs_cli.errors import CqrsError
from cqrs_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server import MCPServer

INSTRUCTIONS = (
    "cqrs stores commands, their outcomes and events in Kafka, and folds the state of each aggregate from its events. "
    "describe lists aggregates and messages; show, history, trace, why and sql read what happened."
)


def make_server(tools: AgentTools, allow_send: bool) -> "MCPServer":
    """Return the server with all tools that read, and `send` if it is allowed."""
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("cqrs", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    for tool in tools.read_tools:
        server.add_tool(_with_error_text(tool), annotations=ToolAnnotations(read_only_hint=True))
    if allow_send:
        server.add_tool(
            _with_error_text(tools.send),
            annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False),
        )
    return server


def _with_error_text(
    tool: "Callable[..., Awaitable[dict[str, Any]]]",
) -> "Callable[..., Awaitable[dict[str, Any]]]":
    """Return the tool with errors that the agent can read: the SDK hides the text of any error but `ToolError`."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    async def call(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return await tool(*arguments, **named)
        except CqrsError as error:
            raise ToolError(str(error)) from None

    return call
