"""The process from which Spark forks its Python workers. It replaces PySpark's daemon, so that workers start faster.

The daemon loads the modules that the tasks of a run use before it forks. No such module may start a thread: a fork
copies only the thread that forks. The aggregates' code may start threads, so each worker loads that code itself.

Spark puts an archive with PySpark's sources first on the import path. `remove_archives` removes it for two reasons.
Python would compile the archive's modules at each start. Each worker would read the archive's list of files dozens of
times: once after each reset of the import caches.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def remove_archives(path: list[str]) -> list[str]:
    """Return the import path `path` without the archives in the folder of the installed PySpark.

    Archives of another Spark installation stay on the path.
    """
    spec = PathFinder.find_spec("pyspark", [folder for folder in path if not folder.endswith(".zip")])
    if spec is None or spec.origin is None:
        return path
    pyspark_folder = Path(spec.origin).parent.resolve()
    return [folder for folder in path if pyspark_folder not in Path(folder).resolve().parents]


def fork_workers() -> None:
    """Load the modules, then fork workers for as long as Spark needs them."""
    sys.path[:] = remove_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyspark.worker  # noqa: F401  # for the workers
    from pyspark.daemon import manager

    import cqrs_cli.runs.task  # noqa: F401  # for the workers

    manager()


if __name__ == "__main__":
    fork_workers()
