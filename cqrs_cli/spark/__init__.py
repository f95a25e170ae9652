"""Topics as DataFrames of Spark's, for joins, windows and SQL: `register(spark)`, then `format("cqrs")`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make the data source `cqrs` known to a session, for `read` and `readStream`."""
    from cqrs_cli.spark.source import CqrsDataSource

    spark.dataSource.register(CqrsDataSource)
