"""A new project: an aggregate, its tests, settings and what to do next."""

from importlib.resources import files
from pathlib import Path
from string import Template

from cqrs_cli.errors import ConfigurationError, UsageError

#: Where each file goes, and what it is made from in `project/`; empty where it only marks a package.
#: The sources end in .txt, so that no tool takes them for code of this package.
FILES = {
    "README.md": "README.md.txt",
    "cqrs.toml": "cqrs.toml.txt",
    ".gitignore": "gitignore.txt",
    "aggregates/__init__.py": "",
    "aggregates/inventory.py": "inventory.py.txt",
    "tests/__init__.py": "",
    "tests/test_inventory.py": "test_inventory.py.txt",
}


def create(folder: Path) -> list[Path]:
    """Write a new project into `folder`, which must be empty or absent; the paths of its files.

    Raises `UsageError` where something is in the way, `ConfigurationError` where nothing can be written.
    """
    try:
        _require_empty(folder)
        return [_write(folder, name, source) for name, source in FILES.items()]
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"cannot write {error.filename or folder}: {reason}", "name another folder"
        ) from error


def _require_empty(folder: Path) -> None:
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "name a new folder, or an empty one")
    elif folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is not a folder", "name a new folder, or an empty one")


def _write(folder: Path, name: str, source: str) -> Path:
    text = (files(__name__) / "project" / source).read_text(encoding="utf-8") if source else ""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Template(text).safe_substitute(name=folder.resolve().name), encoding="utf-8")
    return path
