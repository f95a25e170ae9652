"""`cqrs status`: how far each partition is, and who owns it."""

from cqrs_cli.cli.app import app
from cqrs_cli.cli.frame import AggregateNames, Cli, command


@command(app, examples=["cqrs status bank_account"])
def status(cli: Cli, aggregates: AggregateNames = None) -> None:
    """Lag, owners and state of every partition."""
    cli.result({"aggregates": aggregates}, "hi")
