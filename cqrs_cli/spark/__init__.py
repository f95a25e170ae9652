"""The Spark data source `cqrs`, which reads topics as DataFrames and writes rows as commands. Call `register(spark)`,
then use `format("cqrs")`.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the data source `cqrs` with a session."""
    from cqrs_cli.spark.source import CqrsDataSource

    spark.dataSource.register(CqrsDataSource)


def views(
    spark: "SparkSession", project: str | Path = ".", only: Collection[str] | None = None, **options: str
) -> list[str]:
    """Create temporary views of the topics of a project's aggregates, and return the names of the views.

    Each topic has a view (`order_events`), and each event type has a view with its fields as columns (`order_Placed`).
    A query reads the records that are committed when Spark plans the query.

    `only`: the names of the views to create; None: all. Fewer views are created faster. `options`: options of all
    reads. Raises `UsageError` for a name in `only` that is not a view.
    """
    from cqrs_cli import registry
    from cqrs_cli.errors import UsageError
    from cqrs_cli.settings.settings import load_settings
    from cqrs_cli.spark.view_names import view_reads

    settings = load_settings({}, Path(project).expanduser())
    aggregate_names = registry.names(settings.aggregates, settings.root)
    aggregates = [registry.load(name, settings.aggregates, settings.root) for name in aggregate_names]
    options_by_view = view_reads(aggregates)
    view_names = list(options_by_view if only is None else only)
    if unknown := [name for name in view_names if name not in options_by_view]:
        raise UsageError(f"there is no view {unknown[0]!r}", f"there are {', '.join(options_by_view)}")
    register(spark)
    for name in view_names:
        reader = spark.read.format("cqrs").options(
            project=str(settings.root), **options, **options_by_view[name]
        )
        reader.load().createOrReplaceTempView(f"`{name}`")
    return view_names
