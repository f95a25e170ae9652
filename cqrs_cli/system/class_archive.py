"""Class data archives: the classes of a program as a JVM has them in memory. With one its next JVM starts sooner.

An archive lies in the user's cache, for one program on one Java. To write it takes a whole life of a JVM and 50 to
150 MB, which no command takes unasked: `cqrs warm` does it. The JVM itself looks whether an archive fits, and goes on
without one that does not (JEP 350). But of one that was cut short Java 17 dies: so its size stands in its name.
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

#: An option of a JVM that writes an archive when it ends.
AT_EXIT = "-XX:ArchiveClassesAtExit"

#: Seconds that such a JVM may take to end: half a minute where nothing else runs.
WRITE_WITHIN = 300.0

#: A JVM from 18 on would print why it leaves an archive aside, among what its program prints.
_QUIET = "-Xlog:cds*=off"

_LOCK_FILE = "class-archives.lock"
_WAITING = "another command is writing a class data archive; waiting"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a `program`, named with its version, whose jars lie in the folder `jars`, for a `java`."""

    java: Path
    program: str
    jars: Path

    def find(self) -> Path | None:
        """The archive, if it is there and whole."""
        return _whole(self._stem)

    @property
    def options(self) -> list[str]:
        """The options with which a JVM starts from the archive; none if there is none."""
        found = self.find()
        return [] if found is None else [f"-XX:SharedArchiveFile={found}", _QUIET]

    def write(self, live: Callable[[Sequence[str]], object], note: Callable[[str], None]) -> Path:
        """Write the archive where there is none; its path.

        `live` starts the program with some more options, has it load what it loads, and ends it. `note` is told
        if another command writes one. Raises `ConfigurationError` if the cache cannot be written, and what `live`
        raises.
        """
        cache = user_cache()
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / _LOCK_FILE, partial(note, _WAITING), WRITE_WITHIN):
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
        """The options with which the Java has an archive of its own classes, on which others build.

        It mostly brings one. That of PyPI does not; its own is written beside the others, which know where it lies.
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
    """The beginning of the names of a program's archives. An image keeps only whole seconds of its files' times."""
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
    """Only under the lock: whatever else has this stem is nobody's. Who starts meanwhile has all of it, or none."""
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
    """True once all of it is on the disk: a JVM writes the beginning last."""
    try:
        with archive.open("rb") as file:
            os.fsync(file.fileno())
            return any(file.read(4))
    except FileNotFoundError:
        return False
