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

#: The environment variable that passes the digest of the checked files to the run.
CHECKED_CODE = "CQRS_RELOAD_JUDGED"


def read_sources(root: Path, package: str) -> Sources:
    """Return the Python files of the project's aggregates and processes, and its settings, each with its content."""
    folders = root / package.replace(".", "/"), root / PROCESSES
    files = [*(file for folder in folders for file in folder.rglob("*.py")), root / "cqrs.toml"]
    sources = {}
    for file in files:
        try:
            sources[file] = file.read_bytes()
        except OSError:  # deleted, or being replaced
            continue
    return sources


def sources_digest(sources: Sources) -> str:
    """Return a digest of paths and contents, which differs for different files."""
    digest = hashlib.sha256()
    for path, content in sorted(sources.items()):
        digest.update(f"{path} {len(content)} ".encode(errors="surrogateescape") + content)
    return digest.hexdigest()


def check_reloaded_code(root: Path, package: str) -> None:
    """Raise `CqrsError` if the files have changed since --reload checked them: the run may have loaded other code.

    A reloaded run calls this after its imports.
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
    """Return the contracts of these aggregates (None: all) in the current files, which a child process loads.

    Raises `CqrsError` for code that cannot be loaded; without names the project's processes are loaded, too.
    """
    spawn_context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn_context) as pool:
        contracts = pool.submit(_load_in_process, names, package, root).result()
    if isinstance(contracts, CqrsError):
        raise contracts
    return contracts


def _load_in_process(
    names: Sequence[str] | None, package: str, root: Path
) -> "dict[str, dict[str, Any]] | CqrsError":
    from cqrs_cli import registry

    try:
        aggregates = names or registry.names(package, root)
        contracts = {name: contract_of(registry.load(name, package, root)) for name in aggregates}
        if not names:
            for process in process_names(root):
                load_process(process, root, package)
        return contracts
    except CqrsError as error:
        return error
