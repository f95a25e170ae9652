"""Class data archives (JEP 350): files with the classes of a program as a JVM has them in memory, for faster starts.

The user's cache has one archive for each program and Java. Writing an archive takes a complete run of a JVM and 50 to
150 MB, so it is done only on request, by `cqrs warm`. The JVM checks whether an archive fits, and starts without it
otherwise. But Java 17 crashes on a truncated archive, so the size of an archive is part of its file name.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.system.cache import user_cache
from cqrs_cli.system.lock import file_lock

#: The JVM option that writes an archive when the JVM exits.
AT_EXIT_OPTION = "-XX:ArchiveClassesAtExit"

#: Timeout in seconds for a JVM that writes an archive when it exits. It takes half a minute on an idle machine.
WRITE_TIMEOUT = 300.0

#: Silences Java 18 and later. If they ignore an archive, they would print the reason into the program's output.
_QUIET_OPTION = "-Xlog:cds*=off"

_LOCK_FILE = "class-archives.lock"
_WAIT_MESSAGE = "another command is writing a class data archive; waiting"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a `program`, such as `kafka-4.4.0`, with jars in the folder `jars`, for the executable `java`."""

    java: Path
    program: str
    jars: Path

    def find(self) -> Path | None:
        """Return the path of the archive; None if it is missing or truncated."""
        return _find_archive(self._stem)

    @property
    def options(self) -> list[str]:
        """The options with which a JVM starts from the archive; empty if there is no archive."""
        archive = self.find()
        return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", _QUIET_OPTION]

    def write(self, run_program: Callable[[Sequence[str]], object], on_wait: Callable[[str], None]) -> Path:
        """Write the archive if there is none, and return its path.

        `run_program` runs the program with additional JVM options until all its usual classes are loaded, and ends it.
        `on_wait` is called with a message if another command is writing an archive. Raises `ConfigurationError` if the
        cache cannot be written, `UnavailableError` if the other command does not finish in time, and the errors of
        `run_program`.
        """
        cache = user_cache()
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / _LOCK_FILE, partial(on_wait, _WAIT_MESSAGE), WRITE_TIMEOUT):
                return self.find() or _write_archive(
                    self._stem,
                    lambda path: run_program([*self._base_archive_options(), f"{AT_EXIT_OPTION}={path}"]),
                )
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the cache {cache}: {error.strerror or error}",
                "free disk space, or name another folder in CQRS_CACHE_DIR",
            ) from error

    @property
    def _stem(self) -> str:
        return _stem(self.program, self.java, self.jars)

    def _base_archive_options(self) -> list[str]:
        """Return the options that name the base archive, the archive of Java's own classes. Other archives need it.

        Most Java distributions contain a base archive and need no option. The Java from PyPI lacks it, so its base
        archive is written into the cache; the other archives contain its path.
        """
        if subprocess.run([self.java, "-Xshare:on", "-version"], capture_output=True).returncode == 0:
            return []
        stem = _stem("java", self.java)
        dump_command = [str(self.java), "-Xshare:dump"]
        base = _find_archive(stem) or _write_archive(
            stem,
            lambda path: subprocess.run(
                [*dump_command, f"-XX:SharedArchiveFile={path}"], capture_output=True
            ),
        )
        return [f"-XX:SharedArchiveFile={base}"]


def _stem(program: str, java: Path, *other_paths: Path) -> str:
    """Return the name prefix of a program's archives. It depends on Java's modification time in whole seconds, because
    container images drop fractions of a second.
    """
    java = java.resolve()
    status = java.stat()
    text = "\0".join(map(str, (java, status.st_size, int(status.st_mtime), *other_paths)))
    return f"{program}-{sha256(text.encode()).hexdigest()[:16]}"


def _find_archive(stem: str) -> Path | None:
    """Return the archive with this stem whose size is the size in its name; None if there is none."""
    archives = user_cache().glob(f"{stem}.*.jsa")
    return next((archive for archive in archives if archive.name == _archive_name(stem, archive)), None)


def _archive_name(stem: str, archive: Path) -> str:
    return f"{stem}.{archive.stat().st_size}.jsa"


def _write_archive(stem: str, write: Callable[[Path], object]) -> Path:
    """Write an archive with `write(path)`, and return its path. The caller must hold the lock, since this function
    deletes the incomplete archives that interrupted commands have left. A JVM that starts at the same time finds a
    complete archive or none.
    """
    part_file = user_cache() / f"{stem}.part"
    try:
        part_file.unlink(missing_ok=True)
        write(part_file)
        if not _is_complete(part_file):
            raise CqrsError(
                f"Java wrote no class data archive {part_file}",
                "free disk space, then try again; see cqrs doctor",
            )
        for incomplete in part_file.parent.glob(f"{stem}.*.jsa"):
            incomplete.unlink()
        return part_file.replace(part_file.with_name(_archive_name(stem, part_file)))
    finally:
        part_file.unlink(missing_ok=True)


def _is_complete(archive: Path) -> bool:
    """Sync an archive to disk; True if it is complete. A JVM writes the first bytes last."""
    try:
        with archive.open("rb") as file:
            os.fsync(file.fileno())
            return any(file.read(4))
    except FileNotFoundError:
        return False
