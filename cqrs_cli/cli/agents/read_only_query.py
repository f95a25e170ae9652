"""The check of SQL from an agent, for `cqrs mcp`: a query reads views, and runs no other programs."""

import re

from cqrs_cli.errors import UsageError

#: The largest number of rows of a query, and of events of a history.
MAX_ROWS = 200

#: The accepted queries that are no `SELECT`: they list views or columns.
_LISTING = re.compile(r"(?i)(SHOW VIEWS|DESCRIBE \w+)")

#: Spark's settings for a query. Spark would replace `${env:SECRET}` by a variable of the process before it parses.
QUERY_SETTINGS = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}

#: The start of a word of Spark's lexer that may end in a keyword: nothing, or a number, as in `1e-1DUSING`. After
#: another letter the keyword is a part of a longer word, such as `antireflect`.
_START = r"(?-i:(?<![A-Za-z0-9_])(?:[0-9][A-Za-z0-9_]*)?)"

#: The parts of a `SELECT` that run other programs: functions that call Java, and `IDENTIFIER('…')` as the name of such
#: a function. Blanks and comments may be between `IDENTIFIER` and the parenthesis. Text in quotes is not exempt.
_PROGRAM = re.compile(
    rf"(?i){_START}(?:(?:try_)?(reflect|java_method)(?!\w)|identifier(?=\s*(?:\(|(?:/\*|--)[^(]*+\()))"
)

#: `TRANSFORM (…) USING 'script'`, which Spark runs in a shell; `MAP` and `REDUCE` also start this clause. The script is
#: in quotes, so `JOIN … USING (id)` matches only if a comment and a quote follow `USING`.
_CLAUSE = re.compile(r"(?i)transform|map|reduce")
_SCRIPT = re.compile(rf"(?i){_START}using(?=\s*(?:r?['\"]|(?:/\*|--)[^'\"]*+['\"]))")


def read_only_query(query: str) -> str:
    """Return the query as the subquery of a `SELECT` with a limit, where Spark's grammar permits only reading.

    Raises `UsageError` for several queries, and for a query that runs other programs.
    """
    from cqrs_cli.jobs.sql import split_queries

    text = query.strip().removesuffix(";").strip()
    if _LISTING.fullmatch(text):
        return text
    wrapped = f"SELECT * FROM (\n{text}\n) LIMIT {MAX_ROWS + 1}"
    if len(split_queries(wrapped)) != 1:
        raise UsageError("several queries are not accepted", "write one SELECT")
    if program := _PROGRAM.search(text) or (_CLAUSE.search(text) and _SCRIPT.search(text)):
        raise UsageError(
            f"{program[0]} is not accepted, because it can run other programs", "write a SELECT without it"
        )
    return wrapped
