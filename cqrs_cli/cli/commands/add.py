"""`cqrs add`: another aggregate for a project."""

from typing import Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli


@command(app, "add", examples=["cqrs add invoice"])
def add_to_project(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new aggregate's name, like bank_account.")],
) -> None:
    """Add an aggregate and its test to this project, to be rewritten."""
    from cqrs_cli.scaffold import add_aggregate

    root = cli.settings.root
    made = [path.relative_to(root) for path in add_aggregate(root, cli.settings.aggregates, name)]
    steps = [f"python -m pytest {made[-1]}", f"cqrs describe {name}", f"cqrs init {name}"]
    lines = [*(f"  {path}" for path in made), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.result({"root": root, "files": made, "next": steps}, "\n".join([f"In {root}:", "", *lines]))
