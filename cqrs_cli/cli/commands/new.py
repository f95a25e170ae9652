"""`cqrs new`: create a project."""

import shlex
from pathlib import Path
from typing import Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, option

#: The first step if the project has a `pyproject.toml`.
_INSTALL = "python -m pip install -e '.[dev]'"

Folder = Annotated[Path, argument("DIR", "A new or an empty folder.")]


BareProject = Annotated[bool, option("--bare", "Create only an aggregate, its test and cqrs.toml.")]
SampleName = Annotated[
    str | None,
    option("--aggregate NAME", "Start with a sample aggregate of this name. Default: inventory."),
]


@command(
    app,
    examples=["cqrs new shop", "cqrs new hotel --aggregate room"],
)
def new(cli: Cli, folder: Folder, bare: BareProject = False, aggregate: SampleName = None) -> None:
    """Create a project: an aggregate with its tests, and the files to run, check and ship it.

    The project has a typed package, a Makefile, a Dockerfile, a compose file, a CI workflow, pre-commit and a README.
    Use cqrs add for further aggregates, process managers and projections.
    """
    from cqrs_cli.scaffold import BARE_FILES, FILES, INVENTORY, create, first_aggregate

    sample = INVENTORY if aggregate is None else first_aggregate(aggregate)
    files = create(folder, BARE_FILES if bare else FILES, sample)
    root = folder.resolve()
    if aggregate is not None and not bare:
        files.append(folder / _write_contract(root, aggregate))
    next_steps = [
        *([] if bare else [_INSTALL]),
        "cqrs init",
        f"cqrs send {sample.name} {sample.id} {sample.first_command}",
        "cqrs run --once",
        f"cqrs show {sample.name} {sample.id}",
    ]
    document = {
        "root": root,
        "files": [path.resolve().relative_to(root) for path in files],
        "next": next_steps,
    }
    steps = next_steps if root == Path.cwd() else [f"cd {shlex.quote(str(folder))}", *next_steps]
    lines = [*(f"  {path}" for path in files), "", "Next:", "", *(f"  {step}" for step in steps)]
    cli.print_result(document, [f"A project in {root}:", "", *lines])


def _write_contract(root: Path, name: str) -> Path:
    """Write the contract with which `cqrs check` compares the aggregate; return its path below the root."""
    from cqrs_cli import registry
    from cqrs_cli.doctor.contracts import FOLDER, write_contract

    write_contract(root, registry.load(name, "aggregates", root))
    return Path(FOLDER, f"{name}.json")
