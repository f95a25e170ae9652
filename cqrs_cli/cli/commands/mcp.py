"""`cqrs mcp`: tools for agents, over the Model Context Protocol."""

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.hints import cluster_flags


@command(app, name="mcp", examples=["cqrs mcp"], extras=["mcp"])
def mcp(cli: Cli) -> None:
    """Serve tools for agents over the Model Context Protocol, on stdin and stdout.

    The tools "describe", "show", "history", "trace", "sql", "whatif" and "why" only read; "why" explains the outcome of
    a command. With the setting mcp_allow_send, the tool "send" first shows a dry run, and sends the command in a second
    call.
    """
    from cqrs_cli.cli.agents.server import make_server
    from cqrs_cli.cli.agents.tools import AgentTools

    make_server(AgentTools(cluster_flags(cli.flags)), cli.settings.mcp_allow_send).run("stdio")
