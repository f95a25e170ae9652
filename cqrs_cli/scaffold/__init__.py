"""Creates projects: an aggregate, tests, settings, and files to run, check and ship it. Also adds code to projects."""

import keyword
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.version import __version__

#: The files of a project with an aggregate only: path in the project → template in `project/`; an empty
#: template is an empty file. Templates end in .txt, so that no tool takes them for code of this package.
BARE_FILES = {
    "cqrs.toml": "cqrs.toml.txt",
    "aggregates/__init__.py": "",
    "aggregates/inventory.py": "inventory.py.txt",
    "tests/__init__.py": "",
    "tests/test_inventory.py": "test_inventory.py.txt",
}

#: The files of a complete project.
FILES = BARE_FILES | {
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    "schemas/inventory.json": "inventory.json.txt",
    "Makefile": "Makefile.txt",
    "Dockerfile": "Dockerfile.txt",
    "compose.yaml": "compose.yaml.txt",
    ".dockerignore": "dockerignore.txt",
    ".gitignore": "gitignore.txt",
    ".pre-commit-config.yaml": "pre-commit-config.yaml.txt",
    ".github/workflows/ci.yml": "ci.yml.txt",
}


class FirstAggregate(NamedTuple):
    """The first aggregate of a new project, with the examples for its README."""

    name: str
    id: str  # the id of the instance in the examples
    first_command: str  # arguments of `cqrs send`: "Receive pieces:=10"
    second_command: str  # arguments of a second `cqrs send`
    process: str  # name of a process manager for `cqrs add`
    projection: str

    def template_variables(self) -> dict[str, str]:
        """Return the variables of the README's template; commands are padded, so that their comments are
        aligned.
        """
        commands = {
            "send_first": f"cqrs send {self.name} {self.id} {self.first_command}",
            "send_deferred": f"cqrs send {self.name} {self.id} {self.second_command} --not-before 3d",
            "add_process": f"cqrs add {self.process} --process {self.name}",
            "add_projection": f"cqrs add {self.projection} --projection {self.name}",
        }
        return self._asdict() | {variable: f"{text:<54} " for variable, text in commands.items()}


INVENTORY = FirstAggregate("inventory", "tea", "Receive pieces:=10", "Ship pieces:=3", "restock", "receipts")


def first_aggregate(name: str) -> FirstAggregate:
    """Return a first aggregate with this name; `add_aggregate` writes its code.

    Raises `UsageError` for an invalid name.
    """
    _check_name(name, "aggregate")
    return FirstAggregate(
        name, "first", "Register label=one", "Relabel label=two", "follow_up", f"{name}_labels"[:50]
    )


#: Class names that the template of an aggregate defines or imports.
_RESERVED_CLASS_NAMES = {"Register", "Relabel", "Registered", "Relabelled", "Iterator"}


class SampleEvent(NamedTuple):
    """An event of an aggregate, as used in a generated test."""

    aggregate: str
    event: str
    fields: str  # the arguments of a sample event: "10, date(2026, 5, 1)"
    imports: Sequence[str] = ()  # the import statements that `fields` needs
    has_personal_fields: bool = False

    def template_of(self, kind: str) -> str:
        """Return the name of the templates of a process manager or projection (`kind`) that reads the event.

        Code that reads personal fields must also subscribe to `cqrs.Erased`.
        """
        return f"personal_{kind}" if self.has_personal_fields else kind

    def template_variables(self, name: str, package: str) -> dict[str, str]:
        """Return the variables of the template of a process manager or projection that reads the event.

        `name`: the name of the process manager or projection. `package`: the package of the aggregates, such as
        `aggregates`.
        """
        imports = "".join(f"{line}\n" for line in self.imports) + ("\n" if self.imports else "")
        return {
            "name": name,
            "package": package,
            "aggregate": self.aggregate,
            "event": self.event,
            "fields": self.fields,
            "imports": imports,
        }


def create(
    folder: Path, files: Mapping[str, str] = FILES, aggregate: FirstAggregate = INVENTORY
) -> list[Path]:
    """Write a new project into `folder`, which must be empty or absent; return the paths of its files.

    Raises `UsageError` if `folder` is not empty or not a folder, `ConfigurationError` if it is not writable.
    """
    name = folder.resolve().name
    distribution = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "project"
    project_variables = {"name": name, "distribution": distribution, "version": __version__}
    variables = {**aggregate.template_variables(), "aggregate": aggregate.name, **project_variables}
    templates = {
        path: template
        for path, template in files.items()
        if aggregate == INVENTORY or "inventory" not in path
    }
    try:
        _require_empty(folder)
        paths = [_write(folder / path, template, variables) for path, template in templates.items()]
    except OSError as error:
        raise _not_writable_error(error, folder) from error
    return paths if aggregate == INVENTORY else [*paths, *add_aggregate(folder, "aggregates", aggregate.name)]


def add_aggregate(root: Path, package: str, name: str) -> list[Path]:
    """Write a new aggregate and its test into the project at `root`; return the paths of the written files.

    Raises `UsageError` for an invalid or used name, `ConfigurationError` if a file is not writable.
    """
    _check_name(name, "aggregate")
    title = "".join(part.capitalize() for part in name.split("_"))
    variables = {
        "name": name,
        "package": package,
        "Title": title,
        "State": f"{title}State" if title in _RESERVED_CLASS_NAMES or keyword.iskeyword(title) else title,
    }
    return _add_files(root, root / package.replace(".", "/"), "aggregate", variables)


def add_process(root: Path, package: str, name: str, event: SampleEvent) -> list[Path]:
    """Write a new process manager that subscribes to an event, and its test; raises the errors of `add_aggregate`."""
    _check_name(name, "process manager")
    return _add_files(
        root, root / "processes", event.template_of("process"), event.template_variables(name, package)
    )


def add_projection(root: Path, package: str, name: str, event: SampleEvent) -> list[Path]:
    """Write a new projection of an event, and its test; raises the errors of `add_aggregate`."""
    _check_name(name, "projection", max_length=50)
    return _add_files(
        root, root / "projections", event.template_of("projection"), event.template_variables(name, package)
    )


def _check_name(name: str, kind: str, max_length: int = 100) -> None:
    if (
        not re.fullmatch(r"[a-z][a-z0-9_]*", name)
        or len(name) > max_length
        or keyword.iskeyword(name)
        or keyword.issoftkeyword(name)
    ):
        raise UsageError(
            f"{name!r} is not a valid name of {'an' if kind == 'aggregate' else 'a'} {kind}",
            "the name becomes a module name and part of a topic or table name: "
            f"use at most {max_length} lower-case letters, digits and _, and no keyword of Python",
        )


def _add_files(root: Path, folder: Path, template: str, variables: dict[str, str]) -> list[Path]:
    """Write the code and the test of a new aggregate, process manager or projection."""
    name, tests = variables["name"], root / "tests"
    code, test = folder / f"{name}.py", tests / f"test_{name}.py"
    for path in (code, test):
        if path.exists():
            raise UsageError(f"{path} exists already", "choose another name")
    try:
        new_packages = [package for package in (folder, tests) if not package.exists()]
        paths = [_write(package / "__init__.py", "", variables) for package in new_packages]
        paths.append(_write(code, f"{template}.py.txt", variables))
        paths.append(_write(test, f"test_{template}.py.txt", variables))
        return paths
    except OSError as error:
        raise _not_writable_error(error, root) from error


def _not_writable_error(error: OSError, folder: Path) -> ConfigurationError:
    reason = error.strerror or str(error)
    return ConfigurationError(
        f"cannot write {error.filename or folder}: {reason}", "use a folder that you can write to"
    )


def _require_empty(folder: Path) -> None:
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "use a new folder, or an empty one")
    elif folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is not a folder", "use a new folder, or an empty one")


def _write(path: Path, template: str, variables: dict[str, str]) -> Path:
    """Write a file from a template of `project/`, and return its path; an empty template gives an empty file."""
    text = (resources.files(__name__) / "project" / template).read_text(encoding="utf-8") if template else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Template(text).safe_substitute(variables), encoding="utf-8")
    return path
