"""Write invalid class data archives, and list the archives that a JVM has mapped."""

from pathlib import Path

from cqrs_cli.system.cache import user_cache
from cqrs_cli.system.class_archive import ClassArchive


def write_archive(archive: ClassArchive, content: bytes, size: int | None = None) -> Path:
    """Write a file where the archive belongs, with a name for an archive of `size` bytes."""
    user_cache().mkdir(exist_ok=True)
    file = user_cache() / f"{archive._stem}.{len(content) if size is None else size}.jsa"
    file.write_bytes(content)
    return file


def mapped_archives(pid: int) -> set[Path]:
    """Return the archives that a JVM has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(".jsa")}
