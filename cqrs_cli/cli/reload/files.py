"""Checks changed source files, before `cqrs run --reload` restarts a run with them, and while the run starts."""

import concurrent.futures
import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cqrs_cli.core.aggregate.compatibility import contract_of
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.load import load_process, process_names
from cqrs_cli.runs.source_files import read_sources, sources_digest

#: The environment variable that passes the digest of the checked files to the run.
CHECKED_CODE = "CQRS_RELOAD_JUDGED"

#: The environment variable with the file descriptor to which the run writes a byte once it has compared the digest.
STARTED_FD = "CQRS_RELOAD_STARTED_FD"


def check_reloaded_code(root: Path, package: str) -> None:
    """Raise `CqrsError` if the files have changed since --reload checked them: the run may have loaded other code.

    A reloaded run calls this after its imports, and then reports its start to the process with --reload.
    """
    checked_digest = os.environ.get(CHECKED_CODE)
    if checked_digest is None:
        return
    if checked_digest != sources_digest(read_sources(root, package)):
        raise CqrsError(
            "the code changed while the run started", "it was not checked, so no command is decided"
        )
    with suppress(OSError):  # the process with --reload was killed
        os.write(int(os.environ[STARTED_FD]), b"1")


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
