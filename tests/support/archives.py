"""Archives that a JVM must leave aside, and those that it has taken."""

from pathlib import Path

from cqrs_cli.system.cache import user_cache
from cqrs_cli.system.class_archive import ClassArchive


def put(archive: ClassArchive, content: bytes, size: int | None = None) -> Path:
    """Put a file where the archive belongs, named as one of `size` bytes."""
    user_cache().mkdir(exist_ok=True)
    place = user_cache() / f"{archive._stem}.{len(content) if size is None else size}.jsa"
    place.write_bytes(content)
    return place


def mapped(pid: int) -> set[Path]:
    """The archives that a JVM has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(".jsa")}
