"""`cqrs add`: add an aggregate, a process manager or a projection to a project."""

from datetime import datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal, get_args, get_origin

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, complete_aggregate, option
from cqrs_cli.errors import UsageError
from cqrs_cli.extras import install_command

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.core.aggregate.type_tree import TypeNode
    from cqrs_cli.scaffold import SampleEvent

#: The first step if SQLAlchemy is not installed.
_INSTALL = f"python -m {install_command('projections')}"

#: Type of a field → a sample value, as Python source for the new test.
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

#: Beginning of a sample value → the import that the value needs.
_IMPORTS = {
    "Decimal(": "from decimal import Decimal",
    "datetime(": "from datetime import UTC, datetime",
    "timedelta(": "from datetime import timedelta",
}


@command(
    app,
    "add",
    examples=["cqrs add invoice", "cqrs add billing --process invoice"],
)
def add_to_project(
    cli: Cli,
    name: Annotated[str, argument("NAME", "The new name, like bank_account.")],
    process_source: Annotated[
        str | None,
        option(
            "--process AGGREGATE",
            "Add a process manager that subscribes to this aggregate.",
            complete=complete_aggregate,
        ),
    ] = None,
    projection_source: Annotated[
        str | None,
        option(
            "--projection AGGREGATE",
            "Add a projection of this aggregate's events.",
            complete=complete_aggregate,
        ),
    ] = None,
) -> None:
    """Add a sample aggregate, process manager or projection, with its test, to this project.

    Without --process and --projection it adds an aggregate.
    """
    from cqrs_cli import scaffold

    root, package = cli.settings.root, cli.settings.aggregates
    if process_source is not None and projection_source is not None:
        raise UsageError("--process and --projection exclude each other", "add one, then the other")
    if process_source is not None:
        files = scaffold.add_process(root, package, name, _sample_event(cli.aggregate(process_source)))
        next_steps = ["cqrs init", "cqrs run"]
    elif projection_source is not None:
        files = scaffold.add_projection(root, package, name, _sample_event(cli.aggregate(projection_source)))
        next_steps = [f"cqrs project {name} --once"]
    else:
        files = scaffold.add_aggregate(root, package, name)
        next_steps = [f"cqrs describe {name}", f"cqrs init {name}"]
    files = [path.relative_to(root) for path in files]
    install_steps = [] if projection_source is None or find_spec("sqlalchemy") else [_INSTALL]
    steps = [*install_steps, f"python -m pytest {files[-1]}", *next_steps]
    lines = [*(f"  {path}" for path in files), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.print_result({"root": root, "files": files, "next": steps}, [f"In {root}:", "", *lines])


def _sample_event(aggregate: "Aggregate") -> "SampleEvent":
    """Return the first event of the aggregate of which a sample can be constructed."""
    from cqrs_cli.core.aggregate.type_tree import tree_of
    from cqrs_cli.scaffold import SampleEvent

    for event_class in aggregate.events.values():
        samples = {
            field.name: _sample(type_node)
            for field, type_node in tree_of(event_class).fields
            if field.required
        }
        if None not in samples.values():
            fields = ", ".join(f"{field}={sample}" for field, sample in samples.items())
            imports = {line for start, line in _IMPORTS.items() if start in fields}
            has_personal_fields = bool(aggregate.personal.fields_of(event_class))
            return SampleEvent(
                aggregate.name, event_class.__name__, fields, sorted(imports), has_personal_fields
            )
    raise UsageError(
        f"every event of {aggregate.name} has a field without a simple sample value, so no test can be generated",
        "write the file by hand, as docs/processes.md and docs/projections.md show",
    )


def _sample(type_node: "TypeNode") -> str | None:
    """Return a sample value of this type as Python source, such as `Decimal(1)`; None if no value is simple."""
    if get_origin(type_node.unwrapped) is Literal:
        return repr(get_args(type_node.unwrapped)[0])
    if type_node.form == "union":
        return next((sample for sample in map(_sample, type_node.parts) if sample), None)
    return (
        None
        if type_node.form == "tuple"
        else _SAMPLES.get(get_origin(type_node.unwrapped) or type_node.unwrapped)
    )
