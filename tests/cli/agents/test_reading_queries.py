from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.cli.agents.tools import _read_only_query
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; DROP TABLE t",
        "SELECT 1) x; DROP TABLE t; SELECT * FROM (SELECT 1",
        "SHOW VIEWS; DROP TABLE t",
        "SELECT reflect('java.lang.System', 'exit')",
        "SELECT `Java_Method`('java.lang.System', 'exit')",
    ],
)
def test_writing_queries_are_not_accepted(query: str) -> None:
    with pytest.raises(UsageError, match="not accepted"):
        _read_only_query(query)


def test_queries_become_limited_subqueries() -> None:
    assert (
        _read_only_query("SELECT ';' AS a -- all\n;")
        == "SELECT * FROM (\nSELECT ';' AS a -- all\n) LIMIT 201"
    )
    assert _read_only_query(" show views; ") == "show views"


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
def test_spark_rejects_writes_and_files(spark: "SparkContext", tmp_path: Path, query: str) -> None:
    from cqrs_cli.jobs.engine.session import dataframes

    (tmp_path / "secret.txt").write_text("secret")
    session = dataframes(spark)
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    try:
        with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|TABLE_OR_VIEW_NOT_FOUND"):
            session.sql(_read_only_query(query.format(folder=tmp_path))).collect()
    finally:
        session.conf.unset("spark.sql.runSQLOnFiles")
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
