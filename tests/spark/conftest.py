"""A session with the data source `cqrs`, and topics of orders."""

from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.eventlog import create_topics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def registered_session(spark: "SparkContext") -> "SparkSession":
    """The test run's Spark session, with the data source `cqrs`."""
    import cqrs_cli.spark
    from cqrs_cli.jobs.engine.session import dataframes

    spark_session = dataframes(spark)
    spark_session.conf.set("spark.sql.shuffle.partitions", "2")
    cqrs_cli.spark.register(spark_session)
    return spark_session


@pytest.fixture
def session(registered_session: "SparkSession") -> "SparkSession":
    """The session is active: Spark looks up data sources in the active session, and other tests activate theirs."""
    inner: Any = registered_session
    inner._get_j_spark_session_class(inner._jvm).setActiveSession(inner._jsparkSession)
    return registered_session


@pytest.fixture
def orders(connection: Connection, prefix: str) -> Topics:
    """The topics of the aggregate `order`, with two partitions."""
    topics = Topics("order", prefix)
    create_topics(connection, topics, partitions=2)
    return topics
