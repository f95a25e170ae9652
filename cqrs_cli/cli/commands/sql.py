"""`cqrs sql`: query commands, events, outcomes and states."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import argument, option, time_option
from cqrs_cli.cli.positions import positions_file
from cqrs_cli.cli.render.queries.sql import print_rows
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.cli.target import target_folder
from cqrs_cli.errors import CqrsError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import Target
    from cqrs_cli.jobs.sql import SqlSession

Format = Literal["table", "csv", "json", "parquet"]


@command(
    app,
    examples=[
        'cqrs sql "SELECT status, reason, count(*) FROM bank_account_outcomes GROUP BY ALL"',
        'cqrs sql "SELECT sum(balance) FROM bank_account_state" --at 2026-11-01',
    ],
    extras=["spark"],
)
def sql(
    cli: Cli,
    query: Annotated[str | None, argument("QUERY", "Spark SQL. Default: read stdin, or prompt.")] = None,
    at: Annotated[
        str | None,
        option(
            "--at TIME|@FILE",
            "Query the states at a time (2h ago, 2026-11-21 or RFC 3339), or at the offsets in a file.",
        ),
    ] = None,
    format: Annotated[
        Format | None, option("--format table|csv|json|parquet", "Default: table; with -o json: json.")
    ] = None,
    out: Annotated[
        str | None, option("--out DIR", "Write the result to this folder as csv, json or parquet.")
    ] = None,
    *,
    spark: SparkOptions,
) -> None:
    """Query topics and states with Spark SQL.

    The aggregate order has the views order_commands, order_events, order_outcomes and order_state, and a view for each
    event type, such as order_Placed. SHOW VIEWS lists all views. A query reads the records that are committed when
    Spark plans the query.

    Semicolons separate queries on stdin. At the prompt, Tab completes names, and a semicolon ends a query. A table
    shows at most 1,000 rows; times are in UTC. docs/insight.md explains the columns and --at.
    """
    from cqrs_cli.core.messages.timestamps import rfc3339
    from cqrs_cli.jobs.sql import PRIVATE, SqlSession, split_queries

    properties = spark.apply(cli)
    if cli.flags.get("properties"):
        raise UsageError("sql takes no -X", "put the property into the file of --command-config")
    settings, output_format = cli.settings, _result_format(cli, format, out)
    offsets_file = positions_file("--at", at)
    if offsets_file is not None:
        offsets_file.check_topics(cli.topics(name).events for name in cli.aggregate_names())
    # A time, or a function from an events topic to the offset of each partition.
    as_of: str | Callable[[str], dict[int, int]] | None = None
    if offsets_file is not None:
        as_of = offsets_file.offsets_of
    elif at is not None:
        as_of = rfc3339(time_option("--at", at))
    text = query if query is not None or sys.stdin.isatty() else sys.stdin.read()
    queries = [] if text is None else split_queries(text)
    if text is not None and not queries:
        raise UsageError("there is no query", 'write one: cqrs sql "SELECT …"')
    if out is not None and len(queries) != 1:
        raise UsageError("--out takes one query", "give the query as the argument")
    target = None if out is None else target_folder(out, _file_format(output_format))
    cli.selected_aggregates(None)
    connection = cli.connection()
    if connection.keys is not None:
        properties = PRIVATE | properties
    with spark_session(cli, "sql", (), properties) as (context, _):
        session = SqlSession(context, connection, settings, as_of, _source_flags(cli))
        if text is None:
            _prompt(cli, session, output_format)
        for query_text in queries:
            _run_query(cli, session, query_text, output_format, target)


def _result_format(cli: Cli, format: Format | None, out: str | None) -> Format:
    """Return the format of the result; raises `UsageError` if the format does not suit --out."""
    if out is not None:
        if format == "table":
            raise UsageError("a table is for the screen", "write --format csv, json or parquet")
        return format or "parquet"
    if format == "parquet":
        raise UsageError("parquet needs a folder", "name one: --out DIR")
    return format or ("json" if cli.output == "json" else "table")


def _file_format(output_format: Format) -> Literal["csv", "json", "parquet"]:
    assert output_format != "table"
    return output_format


def _source_flags(cli: Cli) -> dict[str, str]:
    """Return the flags of this call that choose the cluster, as options of the data source."""
    names = {
        "bootstrap_server": "bootstrapServer",
        "topic_prefix": "prefix",
        "command_config": "commandConfig",
    }
    return {
        option: str(value) for flag, option in names.items() if (value := cli.flags.get(flag)) is not None
    }


def _run_query(
    cli: Cli, session: "SqlSession", query: str, output_format: Format, target: "Target | None"
) -> None:
    from cqrs_cli.jobs.sql import json_lines, text_columns

    result = session.query(query)
    if target is not None:
        count = session.write(result, target)
        cli.print_result({"rows": count, "out": target.folder}, f"{count:,} rows written to {target.folder}")
    elif result.columns:
        with session.one_line_errors():
            rows = json_lines(result) if output_format == "json" else text_columns(result)
            print_rows(cli, rows, output_format, session.check_results)
    cli.flush()


def _prompt(cli: Cli, session: "SqlSession", output_format: Format) -> None:
    """Read queries, each of which ends with a semicolon, and run them, until the input ends."""
    cli.print_note(f"views: {', '.join(session.names)}; Ctrl-D ends")
    for query in _typed_queries(cli.settings.root / ".cqrs" / "sql_history", session.names):
        try:
            _run_query(cli, session, query, output_format, None)
        except CqrsError as error:
            cli.print_error(error)


def _typed_queries(history: Path, words: list[str]) -> Iterator[str]:
    """Yield the queries that are typed at the prompt, with history and completion."""
    import readline

    from cqrs_cli.jobs.sql import split_queries
    from cqrs_cli.storage.private import PRIVATE_FILE, opener

    history.parent.mkdir(exist_ok=True)
    open(history, "ab", opener=opener).close()  # private: a query may contain secret values, too
    history.chmod(PRIVATE_FILE)
    if history.stat().st_size:
        readline.read_history_file(history)
    readline.set_completer(completer(words))
    readline.parse_and_bind("tab: complete")
    try:
        while True:
            lines = [input("sql> ")]
            while lines[-1].strip() and not lines[-1].rstrip().endswith(";"):
                lines.append(input("   > "))
            yield from split_queries("\n".join(lines))
    except EOFError:
        return
    finally:
        readline.write_history_file(history)


def completer(words: list[str]) -> Callable[[str, int], str | None]:
    """Return readline's completion function for the names of views and common SQL keywords."""
    completions = [
        *words,
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "JOIN",
        "DESCRIBE",
        "SHOW VIEWS",
    ]

    def complete(text: str, match_number: int) -> str | None:
        matches = [word for word in completions if word.lower().startswith(text.lower())]
        return matches[match_number] if match_number < len(matches) else None

    return complete
