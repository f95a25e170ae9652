"""The files of a project whose change means other code."""

import concurrent.futures
import hashlib
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cqrs_cli.core.aggregate.compatibility import contract
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.load import PROCESSES, load_process, process_names

#: Path → content.
Sources = Mapping[Path, bytes]

#: Tells a run which code was judged: the digest of its files.
JUDGED_CODE = "CQRS_RELOAD_JUDGED"


def read_sources(root: Path, package: str) -> Sources:
    """The Python files of the project's aggregates and processes and its settings, with what is in them."""
    folders = root / package.replace(".", "/"), root / PROCESSES
    files = [*(file for folder in folders for file in folder.rglob("*.py")), root / "cqrs.toml"]
    found = {}
    for file in files:
        try:
            found[file] = file.read_bytes()
        except OSError:  # gone meanwhile, or being replaced
            continue
    return found


def sources_digest(sources: Sources) -> str:
    """A text that is another one for other files."""
    whole = hashlib.sha256()
    for path, content in sorted(sources.items()):
        whole.update(f"{path} {len(content)} ".encode(errors="surrogateescape") + content)
    return whole.hexdigest()


def check_judged(root: Path, package: str) -> None:
    """In a run that --reload started, once it has its code: raise `CqrsError` if the files changed meanwhile.

    It may then have other code than the one that was judged.
    """
    judged = os.environ.get(JUDGED_CODE)
    if judged is not None and judged != sources_digest(read_sources(root, package)):
        raise CqrsError(
            "the code changed while the run started", "it was not judged yet, so nothing is decided"
        )


def changed_names(before: Sources, today: Sources, root: Path) -> list[str]:
    """The files that differ, by their paths in the project."""
    paths = {path for path in before.keys() | today.keys() if before.get(path) != today.get(path)}
    return sorted(str(path.relative_to(root)) for path in paths)


def load_contracts(names: Sequence[str] | None, package: str, root: Path) -> dict[str, dict[str, Any]]:
    """The contracts of these aggregates (None: all) as the files have them now, loaded by a process of their own.

    Raises `CqrsError` for code that cannot be loaded; without names the project's processes are loaded, too.
    """
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as pool:
        found = pool.submit(_load, names, package, root).result()
    if isinstance(found, CqrsError):
        raise found
    return found


def _load(names: Sequence[str] | None, package: str, root: Path) -> "dict[str, dict[str, Any]] | CqrsError":
    from cqrs_cli import registry

    try:
        chosen = names or registry.names(package, root)
        found = {name: contract(registry.load(name, package, root)) for name in chosen}
        for process in (
            () if names else process_names(root)
        ):  # they import aggregates, whose errors come first
            load_process(process, root, package)
        return found
    except CqrsError as error:
        return error
