"""SQL over an aggregate's topics and states, on Spark against a real broker, and as a command."""

import csv
import io
import json
import time
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from cqrs_cli.cli.commands.sql import completer
from cqrs_cli.cli.render.queries.sql import cell_text, csv_lines, print_rows
from cqrs_cli.errors import ContradictionError, CqrsError, UsageError
from cqrs_cli.jobs.engine.session import dataframes
from cqrs_cli.jobs.engine.staging import Target
from cqrs_cli.jobs.sql import SqlSession, json_lines, split_queries, text_columns
from tests.support.commands import mixed_commands
from tests.support.eventlog import append_records
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.project import Project

if TYPE_CHECKING:
    from pyspark import SparkContext


class ViewRecorder(SqlSession):
    """A session that records the names of its views."""

    view_names: ClassVar[list[str]] = []

    def _create_view(self, name: str) -> None:
        self.view_names.append(name)
        super()._create_view(name)


#: A valid event with a number that no column of Spark can hold.
EVENT_BEYOND_64_BITS = {
    "specversion": "1.0",
    "id": "0/0/0",
    "source": "/cqrs/bank_account",
    "type": "bank_account.Deposited",
    "subject": "x",
    "time": "2026-11-21T01:02:03.456Z",
    "causationid": "c",
    "correlationid": "c",
    "aggregateversion": 1,
    "eventindex": 0,
    "eventcount": 1,
    "data": {"amount": 2**63},
}


@pytest.mark.kafka
@pytest.mark.spark
def test_views_and_errors(
    spark: "SparkContext", bank: TopicHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bank.send(*mixed_commands(80))
    run_plan(bank.plan())
    flags = {"bootstrapServer": bank.connection.bootstrap_server, "prefix": bank.topics.prefix}
    session = SqlSession(spark, bank.connection, bank.settings, flags=flags)
    query = """SELECT count(*), sum(s.balance), sum(e.version) FROM bank_account_STATE s
               JOIN (SELECT subject, max(version) version FROM bank_account_events GROUP BY 1) e
               ON e.subject = s.id AND e.version = s.version"""
    states = {
        id: json.loads(saved.state)
        for partition in (0, 1)
        for id, saved in bank.shard_states(partition=partition).items()
    }
    (row,) = session.query(query).collect()
    assert tuple(row)[:2] == (len(states), sum(state["balance"] for state in states.values()))
    result = session.query("SELECT id, balance FROM bank_account_state ORDER BY id")
    assert session.write(result, Target(str(tmp_path / "states"), "csv")) == len(states)
    (file,) = (tmp_path / "states").glob("*.csv")
    assert file.read_text().splitlines()[0] == "id,balance"
    views = {row.viewName for row in session.query("SHOW VIEWS").collect()}
    assert {"bank_account_state", "order_placed", "counter_events"} <= views
    assert "counter_state" not in views
    for text, message in (
        ("SELEC 1", "not SQL: .*PARSE_SYNTAX_ERROR"),
        ("SELECT * FROM bank_acount_events", "did you mean bank_account_events"),
        ("SELECT owner_ FROM bank_account_state", "UNRESOLVED_COLUMN"),
    ):
        with pytest.raises(UsageError, match=message):
            session.query(text)
    assert "SQLQueryContextLogger" not in caplog.text  # it would print stack traces before the line
    positions = {0: bank.stable_end("events"), 1: 0}
    past_session = ViewRecorder(spark, bank.connection, bank.settings, lambda _: positions, flags)
    (row,) = past_session.query("SELECT count(*) FROM bank_account_state").collect()
    assert row[0] == len(bank.shard_states()) < len(states)
    past_session.query("SHOW VIEWS")
    assert "counter_events" in past_session.view_names and "order_state" not in past_session.view_names
    session_beyond_end = SqlSession(spark, bank.connection, bank.settings, lambda _: {0: 10**6, 1: 0}, flags)
    with pytest.raises(UsageError, match=r"bank_account\.events partition 0 has no offset 1000000"):
        session_beyond_end.query("SELECT * FROM bank_account_state")
    append_records(bank.connection, bank.topics.events, 0, [json.dumps(EVENT_BEYOND_64_BITS).encode()])
    with pytest.raises(CqrsError, match="amount does not fit into the column"), session.one_line_errors():
        list(json_lines(session.query("SELECT amount FROM bank_account_Deposited")).toLocalIterator())
    append_records(bank.connection, bank.topics.events, 0, [b"{}"])
    new_session = SqlSession(spark, bank.connection, bank.settings, flags=flags)
    with pytest.raises(ContradictionError, match="events partition 0 offset"), new_session.one_line_errors():
        new_session.query("SELECT * FROM bank_account_state").collect()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_command_answers_several_queries(project: Project) -> None:
    bank = project.harness()
    bank.send(*mixed_commands(40))
    run_plan(bank.plan())
    queries = """-- the events of one type; with its fields
        SELECT count(*) AS deposits FROM bank_account_Deposited;
        SELECT DISTINCT status FROM bank_account_outcomes WHERE status = 'accepted';
        SELECT count(*) AS then FROM bank_account_state"""
    deposits = sum(
        b'"bank_account.Deposited"' in (record.value or b"")
        for partition in (0, 1)
        for record in bank.records("events", partition)
    )
    output = project.cqrs("sql", "--at", "1d", "-o", "json", "--master", "local[2]", "--", queries)
    assert [json.loads(line) for line in output.splitlines()] == [
        {"deposits": deposits},
        {"status": "accepted"},
        {"then": 0},
    ]
    assert not (project.folder / "spark-warehouse").exists()


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_incomplete_results_are_not_printed(format: Literal["table", "csv", "json"]) -> None:
    """A sum over the states of some partitions is wrong, even if an error follows."""
    printed_values: list[object] = []
    rows = SimpleNamespace(collect=lambda: [(10,)], toLocalIterator=lambda: iter([(10,)]))
    result: Any = SimpleNamespace(columns=["n"], limit=lambda _: rows, **vars(rows))
    cli: Any = SimpleNamespace(
        write_line=printed_values.append, stdout=SimpleNamespace(print=printed_values.append)
    )

    def raise_contradiction() -> None:
        raise ContradictionError("a partition cannot be read", "look at it")

    with pytest.raises(ContradictionError):
        print_rows(cli, result, format, raise_contradiction)
    assert printed_values == ([b"n"] if format == "csv" else [])


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("SELECT 1", ["SELECT 1"]),
        (" SELECT 1 ; SELECT ';' ;; ", ["SELECT 1", "SELECT ';'"]),
        ("SELECT `a;b` -- no; end\n; -- nothing", ["SELECT `a;b` -- no; end"]),
        ("", []),
    ],
)
def test_semicolons_separate_queries(text: str, queries: list[str]) -> None:
    assert split_queries(text) == queries


def test_names_are_completed() -> None:
    complete = completer(["order_Placed", "order_events"])
    assert [complete("ORDER_", partition) for partition in range(3)] == ["order_Placed", "order_events", None]
    assert complete("sel", 0) == "SELECT"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 11, 21), "2026-11-21"),
        (b"\xff", "/w=="),
        ("a", "a"),
    ],
)
def test_cells_are_text(value: Any, text: str) -> None:
    assert cell_text(value) == text


def test_csv_quotes_only_special_cells() -> None:
    assert list(csv_lines(["a", "b"], [(1, 'say "no", twice'), (None, "x\ny")])) == [
        b"a,b",
        b'1,"say ""no"", twice"',
        b',"x\ny"',
    ]


@pytest.mark.spark
def test_csv_and_json_preserve_values(
    spark: "SparkContext", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CSV on stdout and in files preserves quotes, blanks, line ends, lists, microseconds, and the year 9999."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    session = dataframes(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    query = """SELECT text, array(1, 2) AS list, timestamp'2026-01-02T03:04:05.123456Z' AS at,
               timestamp'9999-12-31T23:59:59Z' AS until
               FROM VALUES
               ('he said "hi", twice'), ('  padded  '), ('a\\\\"b'), ('two\\nlines'), (''), (NULL)
               AS t(text)"""
    result = session.sql(query)
    texts = ['he said "hi", twice', "  padded  ", 'a\\"b', "two\nlines", "", ""]
    times = ["2026-01-02T03:04:05.123456Z", "9999-12-31T23:59:59.000000Z"]
    lines = list(csv_lines(result.columns, text_columns(result).toLocalIterator()))
    assert [*csv.DictReader(io.StringIO(b"\r\n".join(lines).decode(), newline=""))] == [
        {"text": text, "list": "[1,2]", "at": times[0], "until": times[1]} for text in texts
    ]
    spark_session: Any = SimpleNamespace(_context=spark, _spark=session, one_line_errors=nullcontext)
    assert SqlSession.write(spark_session, result, Target(str(tmp_path / "out"), "csv")) == 6
    files = [file.read_text() for file in sorted((tmp_path / "out").glob("*.csv"))]
    rows = [row for text in files for row in csv.DictReader(io.StringIO(text, newline=""))]
    assert [row["text"] for row in rows] == texts
    assert {(row["list"], row["at"], row["until"]) for row in rows} == {("[1,2]", *times)}
    documents = [json.loads(document) for (document,) in json_lines(result).collect()]
    assert {document["at"] for document in documents} == {times[0]}
    assert {document["until"] for document in documents} == {times[1]}
