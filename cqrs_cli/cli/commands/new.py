"""`cqrs new`: a project of your own."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli

#: The commands to type next, in the new folder.
NEXT = (
    "python -m pip install -e '.[dev]'",
    "cqrs init",
    "cqrs send inventory tea Receive pieces:=10",
    "cqrs run --once",
    "cqrs show inventory tea",
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or an empty one.")]


@command(app, examples=["cqrs new shop", "cqrs new ."])
def new(cli: Cli, folder: Folder) -> None:
    """Make a project of your own: an aggregate, its tests, cqrs.toml and pyproject.toml."""
    from cqrs_cli.scaffold import create

    made = create(folder)
    there = folder.resolve()
    document = {"root": there, "files": [path.resolve().relative_to(there) for path in made], "next": NEXT}
    steps = NEXT if there == Path.cwd() else (f"cd {shlex.quote(str(folder))}", *NEXT)
    lines = [*(f"  {path}" for path in made), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.result(document, "\n".join([f"A project in {there}:", "", *lines]))
