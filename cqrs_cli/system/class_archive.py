"""Class data archives (JEP 350): files with the classes of a program as a JVM has them in memory, for faster starts.

An archive is in the user's cache, one for each program and Java. Writing an archive takes a complete run of a JVM and
50 to 150 MB, so no command writes one unasked; `cqrs warm` does. The JVM checks whether an archive fits, and starts
without it otherwise. But Java 17 crashes on a truncated archive, so the size of an archive is part of its file name.
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
AT_EXIT = "-XX:ArchiveClassesAtExit"

#: Timeout in seconds for such a JVM to exit. It takes half a minute on an idle machine.
WRITE_TIMEOUT = 300.0

#: Java 18 and later would print why they ignore an archive into the output of the program.
_QUIET = "-Xlog:cds*=off"

_LOCK_FILE = "class-archives.lock"
_WAITING = "another command is writing a class data archive; waiting"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a `program`, such as `kafka-4.4.0`, with the jars in the folder `jars`, for a `java`."""

    java: Path
    program: str
    jars: Path

    def find(self) -> Path | None:
        """Return the path of the archive; None if it is missing or truncated."""
        return _whole(self._stem)

    @property
    def options(self) -> list[str]:
        """The options with which a JVM starts from the archive; empty if there is no archive."""
        found = self.find()
        return [] if found is None else [f"-XX:SharedArchiveFile={found}", _QUIET]

    def write(self, live: Callable[[Sequence[str]], object], note: Callable[[str], None]) -> Path:
        """Write the archive if there is none, and return its path.

        `live` runs the program with additional JVM options until all its usual classes are loaded, and ends it. `note`
        is called if another command is writing an archive. Raises `ConfigurationError` if the cache cannot be written,
        `UnavailableError` if the other command does not finish in time, and the errors of `live`.
        """
        cache = user_cache()
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / _LOCK_FILE, partial(note, _WAITING), WRITE_TIMEOUT):
                return self.find() or _written(
                    self._stem, lambda at: live([*self._base(), f"{AT_EXIT}={at}"])
                )
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the cache {cache}: {error.strerror or error}",
                "make room or name another folder in CQRS_CACHE_DIR",
            ) from error

    @property
    def _stem(self) -> str:
        return _stem(self.program, self.java, self.jars)

    def _base(self) -> list[str]:
        """Return the options that name the base archive, the archive of Java's own classes. Other archives need it.

        Most Java distributions contain a base archive and need no option. The Java from PyPI lacks it, so its base
        archive is written into the cache; the other archives contain its path.
        """
        if subprocess.run([self.java, "-Xshare:on", "-version"], capture_output=True).returncode == 0:
            return []
        stem = _stem("java", self.java)
        dump = [str(self.java), "-Xshare:dump"]
        base = _whole(stem) or _written(
            stem, lambda at: subprocess.run([*dump, f"-XX:SharedArchiveFile={at}"], capture_output=True)
        )
        return [f"-XX:SharedArchiveFile={base}"]


def _stem(program: str, java: Path, *more: Path) -> str:
    """Return the name prefix of a program's archives. File times count in seconds, as container images keep them."""
    java = java.resolve()
    found = java.stat()
    text = "\0".join(map(str, (java, found.st_size, int(found.st_mtime), *more)))
    return f"{program}-{sha256(text.encode()).hexdigest()[:16]}"


def _whole(stem: str) -> Path | None:
    there = user_cache().glob(f"{stem}.*.jsa")
    return next((one for one in there if one.name == _name(stem, one)), None)


def _name(stem: str, archive: Path) -> str:
    return f"{stem}.{archive.stat().st_size}.jsa"


def _written(stem: str, write: Callable[[Path], object]) -> Path:
    """Write an archive; call it under the lock, since it deletes other files of this stem, which are left over from
    interrupted commands. A JVM that starts at the same time finds a complete archive or none.
    """
    fresh = user_cache() / f"{stem}.part"
    try:
        fresh.unlink(missing_ok=True)
        write(fresh)
        if not _is_complete(fresh):
            raise CqrsError(f"Java wrote no class data archive {fresh}", "make room for it; see cqrs doctor")
        for broken in fresh.parent.glob(f"{stem}.*.jsa"):
            broken.unlink()
        return fresh.replace(fresh.with_name(_name(stem, fresh)))
    finally:
        fresh.unlink(missing_ok=True)


def _is_complete(archive: Path) -> bool:
    """Sync an archive to disk; True if it is complete. A JVM writes the first bytes last."""
    try:
        with archive.open("rb") as file:
            os.fsync(file.fileno())
            return any(file.read(4))
    except FileNotFoundError:
        return False
