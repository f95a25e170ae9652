"""`cqrs mcp`: tools for agents, over the Model Context Protocol."""

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.hints import cluster_flags


@command(app, name="mcp", examples=["cqrs mcp"], extras=["mcp"])
def mcp(cli: Cli) -> None:
    """Serve tools for AI agents over the Model Context Protocol, on stdin and stdout.

    The tools "describe", "show", "history", "trace", "sql", "whatif" and "why" only read; "why" explains the outcome of
    a command. The tool "send" exists with the setting mcp_allow_send: its first call is a dry run, its second call
    sends the command.
    """
    from cqrs_cli.cli.agents.server import make_server
    from cqrs_cli.cli.agents.tools import AgentTools

    tools = AgentTools(cluster_flags(cli.flags), cli.settings.dedup_window)
    make_server(tools, cli.settings.mcp_allow_send).run("stdio")
