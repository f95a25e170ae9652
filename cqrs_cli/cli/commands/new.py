"""`cqrs new`: a project of your own."""

import shlex
from pathlib import Path
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, option

#: The commands to type next, in the new folder.
NEXT = (
    "python -m pip install -e '.[dev]'",
    "cqrs init",
    "cqrs send inventory tea Receive pieces:=10",
    "cqrs run --once",
    "cqrs show inventory tea",
)

#: The same where the project has no `pyproject.toml`.
NEXT_BARE = NEXT[1:]

Folder = Annotated[Path, argument("DIR", "A new folder, or an empty one.")]


Bare = Annotated[bool, option("--bare", "An aggregate, its test and cqrs.toml: nothing else.")]


@command(app, examples=["cqrs new shop", "cqrs new .", "cqrs new shop --bare"])
def new(cli: Cli, folder: Folder, bare: Bare = False) -> None:
    """Make a project of your own: an aggregate and its tests, and what runs, checks and ships it.

    That is a package with strict types, a Makefile, an image and a compose file, a CI workflow, pre-commit, and a
    README of its own. `cqrs add` adds aggregates, processes and projections.
    """
    from cqrs_cli.scaffold import BARE, FILES, create

    made = create(folder, BARE if bare else FILES)
    there, then = folder.resolve(), NEXT_BARE if bare else NEXT
    document = {"root": there, "files": [path.resolve().relative_to(there) for path in made], "next": then}
    steps = then if there == Path.cwd() else (f"cd {shlex.quote(str(folder))}", *then)
    lines = [*(f"  {path}" for path in made), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.result(document, [f"A project in {there}:", "", *lines])
