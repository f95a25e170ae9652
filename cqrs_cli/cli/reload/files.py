"""The source files of a project, whose changes restart a run."""

import concurrent.futures
import hashlib
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cqrs_cli.core.aggregate.compatibility import contract_of
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.load import PROCESSES, load_process, process_names

#: Path → content.
Sources = Mapping[Path, bytes]

#: Passes to a run the digest of the files that were checked.
CHECKED_CODE = "CQRS_RELOAD_JUDGED"


def read_sources(root: Path, package: str) -> Sources:
    """Return the Python files of the project's aggregates and processes, and its settings, each with its content."""
    folders = root / package.replace(".", "/"), root / PROCESSES
    files = [*(file for folder in folders for file in folder.rglob("*.py")), root / "cqrs.toml"]
    found = {}
    for file in files:
        try:
            found[file] = file.read_bytes()
        except OSError:  # deleted, or being replaced
            continue
    return found


def sources_digest(sources: Sources) -> str:
    """Return a digest of paths and contents, which differs for different files."""
    whole = hashlib.sha256()
    for path, content in sorted(sources.items()):
        whole.update(f"{path} {len(content)} ".encode(errors="surrogateescape") + content)
    return whole.hexdigest()


def check_reloaded_code(root: Path, package: str) -> None:
    """Raise `CqrsError` if the files have changed since --reload checked them; a reloaded run calls this after its
    imports.

    The run may then have loaded code that was not checked.
    """
    checked = os.environ.get(CHECKED_CODE)
    if checked is not None and checked != sources_digest(read_sources(root, package)):
        raise CqrsError(
            "the code changed while the run started", "it was not checked, so no command is decided"
        )


def changed_names(previous: Sources, current: Sources, root: Path) -> list[str]:
    """Return the files that differ, by their paths in the project."""
    paths = {path for path in previous.keys() | current.keys() if previous.get(path) != current.get(path)}
    return sorted(str(path.relative_to(root)) for path in paths)


def load_contracts(names: Sequence[str] | None, package: str, root: Path) -> dict[str, dict[str, Any]]:
    """Return the contracts of these aggregates (None: all) in the current files, which a process of its own loads.

    Raises `CqrsError` for code that cannot be loaded; without names the project's processes are loaded, too.
    """
    spawn_context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn_context) as pool:
        found = pool.submit(_load, names, package, root).result()
    if isinstance(found, CqrsError):
        raise found
    return found


def _load(names: Sequence[str] | None, package: str, root: Path) -> "dict[str, dict[str, Any]] | CqrsError":
    from cqrs_cli import registry

    try:
        selected = names or registry.names(package, root)
        found = {name: contract_of(registry.load(name, package, root)) for name in selected}
        for process in (
            () if names else process_names(root)
        ):  # processes import aggregates, whose errors come first
            load_process(process, root, package)
        return found
    except CqrsError as error:
        return error
