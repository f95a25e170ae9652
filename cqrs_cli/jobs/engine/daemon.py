"""The process from which Spark forks its Python workers. It has loaded what the tasks of a run load.

So a worker, also one that takes the place of a lost one, begins to work at once. No module that is loaded here starts a
thread: a fork copies only the thread that forks. The aggregates' code may start some, so each worker loads it itself.
"""


def fork_workers() -> None:
    """Load, then fork workers for as long as Spark wants."""
    import pyspark.worker  # noqa: F401  # for the workers
    from pyspark.daemon import manager

    import cqrs_cli.runs.task  # noqa: F401  # for the workers

    manager()


if __name__ == "__main__":
    fork_workers()
