from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.cli.agents.read_only_query import QUERY_SETTINGS, read_only_query
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; DROP TABLE t",
        "SELECT 1) x; DROP TABLE t; SELECT * FROM (SELECT 1",
        "SHOW VIEWS; DROP TABLE t",
        "SELECT reflect('java.lang.System', 'exit')",
        "SELECT `Java_Method`('java.lang.System', 'exit')",
        "SELECT identifier /* a */ ('ref' || 'lect')('java.lang.System', 'exit')",
        "SELECT TRANSFORM (1) USING -- a\n 'touch x' AS a",
        "MAP 1e-1DUSING'touch x' FROM VALUES (1)",
        "reduce 1 u\u017fing /* ' */ r'touch x' FROM VALUES (1)",
        "SELECT try_reflect('java.lang.System', 'exit')",
        "SELECT system.builtin.reflect('java.lang.System', 'exit')",
    ],
)
def test_writing_queries_are_not_accepted(query: str) -> None:
    with pytest.raises(UsageError, match="not accepted"):
        read_only_query(query)


def test_queries_become_limited_subqueries() -> None:
    assert (
        read_only_query("SELECT ';' AS a -- all\n;") == "SELECT * FROM (\nSELECT ';' AS a -- all\n) LIMIT 201"
    )
    assert read_only_query(" show views; ") == "show views"
    assert "USING" in read_only_query("SELECT o.identifier, using FROM a AS o JOIN b USING (id)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT o.antireflect, my_identifier (1) FROM o",
        "SELECT o.identifier -- no parenthesis",
        "SELECT * FROM o WHERE note = 'paid using \"card\"'",
        "SELECT map(1, 2) FROM o JOIN b USING -- x\n (id)",
    ],
)
def test_harmless_queries_are_accepted(query: str) -> None:
    assert query in read_only_query(query)


@pytest.fixture
def session(spark: "SparkContext") -> "Iterator[SparkSession]":
    """Spark with the settings of an agent's query."""
    from cqrs_cli.jobs.engine.session import dataframes

    session = dataframes(spark)
    for name, value in QUERY_SETTINGS.items():
        session.conf.set(name, value)
    yield session
    for name in QUERY_SETTINGS:
        session.conf.unset(name)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "INSERT OVERWRITE DIRECTORY '{folder}/out' USING csv SELECT 1",
        "WITH one AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{folder}/out' USING csv SELECT * FROM one",
        "SELECT 1) INSERT OVERWRITE DIRECTORY '{folder}/out' USING csv (SELECT 1",
        "SELECT * FROM text.`{folder}`",
    ],
)
def test_spark_rejects_writes_and_files(session: "SparkSession", tmp_path: Path, query: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|TABLE_OR_VIEW_NOT_FOUND"):
        session.sql(read_only_query(query.format(folder=tmp_path))).collect()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_queries_read_no_variables(session: "SparkSession") -> None:
    text = "${env:PATH} ${system:user.home}"
    assert session.sql(read_only_query(f"SELECT '{text}'")).first() == (text,)
