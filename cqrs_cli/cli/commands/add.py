"""`cqrs add`: another aggregate for a project, or a process between its aggregates."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import complete_aggregate
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate

#: Types of fields, and what an event of the new process's test has in them.
_SAMPLES = {str: '"text"', int: "1", float: "1.0", bool: "True"}


@command(app, "add", examples=["cqrs add invoice", "cqrs add billing --process invoice"])
def add_to_project(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new aggregate's name, like bank_account.")],
    heard: Annotated[
        str | None,
        typer.Option(
            "--process",
            metavar="AGGREGATE",
            help="Add a process of this name, which hears the aggregate.",
            autocompletion=complete_aggregate,
        ),
    ] = None,
) -> None:
    """Add an aggregate and its test to this project, or a process and its test, to be rewritten."""
    from cqrs_cli.scaffold import add_aggregate

    root, package = cli.settings.root, cli.settings.aggregates
    if heard is None:
        made = add_aggregate(root, package, name)
        then = [f"cqrs describe {name}", f"cqrs init {name}"]
    else:
        made = _add_process(root, package, name, cli.aggregate(heard))
        then = ["cqrs init", "cqrs run"]
    made = [path.relative_to(root) for path in made]
    steps = [f"python -m pytest {made[-1]}", *then]
    lines = [*(f"  {path}" for path in made), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.result({"root": root, "files": made, "next": steps}, "\n".join([f"In {root}:", "", *lines]))


def _add_process(root: Path, package: str, name: str, heard: "Aggregate") -> list[Path]:
    """A process that hears the first of the aggregate's events that a test can make."""
    import msgspec

    from cqrs_cli.scaffold import add_process

    for kind in heard.events.values():
        samples = {
            field.name: _SAMPLES.get(field.type)
            for field in msgspec.structs.fields(kind)
            if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        }
        if None not in samples.values():
            fields = ", ".join(f"{field}={sample}" for field, sample in samples.items())
            return add_process(root, package, name, heard.name, kind.__name__, fields)
    raise UsageError(
        f"no event of {heard.name} has fields of simple types only", "write it by hand: docs/processes.md"
    )
