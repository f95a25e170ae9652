"""Reads and compares the source files of a project: its settings, and the code of aggregates and process managers."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.load import PROCESSES

#: Path → content.
Sources = Mapping[Path, bytes]


def read_sources(root: Path, package: str) -> Sources:
    """Return the contents of the Python files of the project's aggregates and process managers, and of its settings."""
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
    """Return a digest of all paths and contents."""
    digest = hashlib.sha256()
    for path, content in sorted(sources.items()):
        digest.update(f"{path} {len(content)} ".encode(errors="surrogateescape") + content)
    return digest.hexdigest()


def changed_paths(previous: Sources, current: Sources, root: Path) -> list[str]:
    """Return the paths of the files that differ, relative to the project."""
    paths = {path for path in previous.keys() | current.keys() if previous.get(path) != current.get(path)}
    return sorted(str(path.relative_to(root)) for path in paths)


class SourceWatch:
    """Compares the source files of a standby run with their contents when the run started."""

    def __init__(self, root: Path, package: str, check_interval: float = 2.0) -> None:
        """`check_interval` is in seconds."""
        self._root, self._package, self._check_interval = root, package, check_interval
        self._sources, self._checked_at = read_sources(root, package), time.monotonic()

    def check_if_due(self) -> None:
        """Raise `CqrsError`, exit code 1, if files have changed and a check is due. A process cannot load the code a
        second time, so a service manager must start the run again.

        Call it only while the run owns no partition, because an active run continues with the code that it has loaded.
        """
        if time.monotonic() - self._checked_at < self._check_interval:
            return
        self._checked_at = time.monotonic()
        if names := changed_paths(self._sources, read_sources(self._root, self._package), self._root):
            more_text = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CqrsError(
                f"changed since this standby started: {', '.join(names[:3])}{more_text}",
                "start it again, so that it takes over with the current settings and code; a service manager does",
            )
