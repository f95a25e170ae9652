"""`cqrs add`: another aggregate for a project, or a process between its aggregates."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args, get_origin

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import complete_aggregate
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate

#: Types of fields, and what an event of the new process's test has in them.
_SAMPLES: dict[object, str] = {
    str: '"text"',
    int: "1",
    float: "1.0",
    bool: "True",
    bytes: 'b""',
    type(None): "None",
    list: "[]",
    tuple: "()",
    dict: "{}",
    frozenset: "frozenset()",
    Decimal: "Decimal(1)",
    datetime: "datetime(2026, 1, 1, tzinfo=UTC)",
    timedelta: "timedelta(1)",
}

#: What such a value needs, by the beginning of its expression.
_IMPORTS = {
    "Decimal(": "from decimal import Decimal",
    "datetime(": "from datetime import UTC, datetime",
    "timedelta(": "from datetime import timedelta",
}


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
            field.name: _sample(field.type)
            for field in msgspec.structs.fields(kind)
            if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        }
        if None not in samples.values():
            fields = ", ".join(f"{field}={sample}" for field, sample in samples.items())
            imports = {
                line
                for start, line in _IMPORTS.items()
                if any(start in one for one in samples.values() if one)
            }
            return add_process(root, package, name, heard.name, kind.__name__, fields, sorted(imports))
    raise UsageError(
        f"every event of {heard.name} has a field with fields of its own: no test can be written for one",
        "write processes/__init__.py and the process by hand: cqrs.Process(react)",
    )


def _sample(kind: object) -> str | None:
    """An expression of a value of this type; None if there is no simple one."""
    origin = get_origin(kind)
    if origin is Literal:
        return repr(get_args(kind)[0])
    if origin in (Union, UnionType):
        return next((one for one in map(_sample, get_args(kind)) if one), None)
    if origin is tuple and Ellipsis not in get_args(kind):
        return None
    return _SAMPLES.get(origin or kind)
