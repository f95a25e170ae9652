"""The process from which Spark forks its Python workers: PySpark's own, but workers begin in a fraction of the time.

It has loaded what the tasks of a run load. No module that is loaded here starts a thread: a fork copies only the thread
that forks. The aggregates' code may start some, so each worker loads it itself.

Spark puts an archive with PySpark's sources first on the path. Python compiles what it imports from there at each
start, and each worker reads the archive's directory dozens of times, as often as modules are looked for anew.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def without_archives(path: list[str]) -> list[str]:
    """The path without Spark's archives, if the PySpark that they belong to is installed on it."""
    spec = PathFinder.find_spec("pyspark", [place for place in path if not place.endswith(".zip")])
    if spec is None or spec.origin is None:
        return path
    home = Path(spec.origin).parent.resolve()
    return [place for place in path if home not in Path(place).resolve().parents]


def fork_workers() -> None:
    """Load, then fork workers for as long as Spark wants."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyspark.worker  # noqa: F401  # for the workers
    from pyspark.daemon import manager

    import cqrs_cli.runs.task  # noqa: F401  # for the workers

    manager()


if __name__ == "__main__":
    fork_workers()
