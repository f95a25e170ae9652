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

#: The files of a project with an aggregate only: target path → template in `project/`; empty for a package marker. The
#: templates end in .txt, so that no tool takes them for code of this package.
BARE = {
    "cqrs.toml": "cqrs.toml.txt",
    "aggregates/__init__.py": "",
    "aggregates/inventory.py": "inventory.py.txt",
    "tests/__init__.py": "",
    "tests/test_inventory.py": "test_inventory.py.txt",
}

#: The files of a complete project.
FILES = BARE | {
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
    id: str
    first: str  # a command for `cqrs send`
    second: str
    process: str
    projection: str

    def words(self) -> dict[str, str]:
        """Return the template variables of the README; commands are padded to the column of their comments."""
        commands = {
            "first": f"cqrs send {self.name} {self.id} {self.first}",
            "later": f"cqrs send {self.name} {self.id} {self.second} --not-before 3d",
            "hears": f"cqrs add {self.process} --process {self.name}",
            "takes": f"cqrs add {self.projection} --projection {self.name}",
        }
        return self._asdict() | {word: f"{text:<54} " for word, text in commands.items()}


INVENTORY = FirstAggregate("inventory", "tea", "Receive pieces:=10", "Ship pieces:=3", "restock", "receipts")


def first_aggregate(name: str) -> FirstAggregate:
    """Return a first aggregate with the user's name, for `add_aggregate`. Raises `UsageError` for an invalid name."""
    _check_name(name, "an aggregate's")
    return FirstAggregate(
        name, "first", "Register label=one", "Relabel label=two", "follow_up", f"{name}_labels"[:50]
    )


#: Class names that the template of an aggregate defines or imports.
_TAKEN = {"Register", "Relabel", "Registered", "Relabelled", "Iterator"}


class SampleEvent(NamedTuple):
    """An event of an aggregate. `fields`: arguments of a sample event, which need these `imports`."""

    aggregate: str
    event: str
    fields: str
    imports: Sequence[str] = ()

    def words(self, name: str, package: str) -> dict[str, str]:
        """Return the template variables of a file that subscribes to the event."""
        imports = "".join(f"{line}\n" for line in self.imports) + ("\n" if self.imports else "")
        return {
            "name": name,
            "package": package,
            "aggregate": self.aggregate,
            "event": self.event,
            "fields": self.fields,
            "imports": imports,
        }


def create(folder: Path, files: Mapping[str, str] = FILES, first: FirstAggregate = INVENTORY) -> list[Path]:
    """Write a new project into `folder`, which must be empty or absent; return the paths of its files.

    Raises `UsageError` if `folder` is not empty or not a folder, `ConfigurationError` if it is not writable.
    """
    name = folder.resolve().name
    distribution = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "project"
    project = {"name": name, "distribution": distribution, "version": __version__}
    words = {**first.words(), "aggregate": first.name, **project}
    own = {path: source for path, source in files.items() if first == INVENTORY or "inventory" not in path}
    try:
        _require_empty(folder)
        made = [_write(folder / path, source, words) for path, source in own.items()]
    except OSError as error:
        raise _unwritable(error, folder) from error
    return made if first == INVENTORY else [*made, *add_aggregate(folder, "aggregates", first.name)]


def add_aggregate(root: Path, package: str, name: str) -> list[Path]:
    """Write a new aggregate and its test into the project at `root`; return the paths of the written files.

    Raises `UsageError` for an invalid or used name, `ConfigurationError` if a file is not writable.
    """
    _check_name(name, "an aggregate's")
    state = "".join(part.capitalize() for part in name.split("_"))
    words = {
        "name": name,
        "package": package,
        "Title": state,
        "State": f"{state}State" if state in _TAKEN or keyword.iskeyword(state) else state,
    }
    return _add(root, root / package.replace(".", "/"), "aggregate", words)


def add_process(root: Path, package: str, name: str, heard: SampleEvent) -> list[Path]:
    """Write a new process manager that subscribes to an event, and its test; raises the errors of `add_aggregate`."""
    _check_name(name, "a process's")
    return _add(root, root / "processes", "process", heard.words(name, package))


def add_projection(root: Path, package: str, name: str, heard: SampleEvent) -> list[Path]:
    """Write a new projection that takes an event, and its test; raises the errors of `add_aggregate`."""
    _check_name(name, "a projection's", longest=50)
    return _add(root, root / "projections", "projection", heard.words(name, package))


def _check_name(name: str, whose: str, longest: int = 100) -> None:
    if (
        not re.fullmatch(r"[a-z][a-z0-9_]*", name)
        or len(name) > longest
        or keyword.iskeyword(name)
        or keyword.issoftkeyword(name)
    ):
        raise UsageError(
            f"{name!r} cannot be {whose} name",
            "it is a module's name and part of a topic's or a table's: "
            f"at most {longest} lower-case letters, digits and _, like bank_account",
        )


def _add(root: Path, folder: Path, kind: str, words: dict[str, str]) -> list[Path]:
    """Write the code and the test of a new aggregate, process manager or projection."""
    name, tests = words["name"], root / "tests"
    code, test = folder / f"{name}.py", tests / f"test_{name}.py"
    for path in (code, test):
        if path.exists():
            raise UsageError(f"{path} is there already", "choose another name")
    try:
        markers = [one / "__init__.py" for one in (folder, tests) if not one.exists()]
        made = [_write(marker, "", words) for marker in markers]
        return [*made, _write(code, f"{kind}.py.txt", words), _write(test, f"test_{kind}.py.txt", words)]
    except OSError as error:
        raise _unwritable(error, root) from error


def _unwritable(error: OSError, folder: Path) -> ConfigurationError:
    reason = error.strerror or str(error)
    return ConfigurationError(f"cannot write {error.filename or folder}: {reason}", "name another folder")


def _require_empty(folder: Path) -> None:
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "name a new folder, or an empty one")
    elif folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is not a folder", "name a new folder, or an empty one")


def _write(path: Path, source: str, words: dict[str, str]) -> Path:
    text = (resources.files(__name__) / "project" / source).read_text(encoding="utf-8") if source else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Template(text).safe_substitute(words), encoding="utf-8")
    return path
