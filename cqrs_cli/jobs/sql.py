"""The driver of `cqrs sql`: Spark queries over views of a project's topics, and of its aggregates' states.

A state view has a task for each partition. A view is created only when a query names it, because Spark needs some time
for each view.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cqrs_cli import errors, registry
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.jobs.engine.partition_job import raise_gravest, result_accumulator
from cqrs_cli.jobs.engine.session import dataframes, error_texts, spark_failure
from cqrs_cli.jobs.engine.staging import Target, staging_folder
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.jobs.replay.output import aggregate_rows, state_schema
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.replay.task import ReplayResult
from cqrs_cli.spark import views
from cqrs_cli.spark.view_names import state_view, view_reads

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from cqrs_cli.settings.settings import Settings

#: Spark's settings for every query: times are in UTC, and JSON rows also contain the columns that are null.
_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.jsonGenerator.ignoreNullFields": "false"}

#: Spark's properties for a project with a keyring: no personal value may stay on a disk. Spark encrypts the data that
#: it spills with a key in memory. Its log is off after the start, because it would quote values of a failed query.
#: `--conf` overrides these properties.
PRIVATE = {
    "spark.io.encryption.enabled": "true",
    "spark.log.level": "OFF",
    "spark.executor.syncLogLevel.enabled": "true",
}

#: Matches the last line of a worker's traceback for an error of cqrs; the groups are the error's class and message.
_CQRS_ERROR = re.compile(r"(?:^|worker: )(?:cqrs_cli\.errors\.)?(\w+Error): (.+)$", re.MULTILINE)

_WORD = re.compile(r"\w+")

#: Times as text have six decimal places of a second, as in events, so no microsecond is lost.
_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"

#: Spark's options for CSV as in RFC 4180: quotes are doubled, and blanks are kept. Null and an empty text are both an
#: empty cell.
_CSV = {
    "header": "true",
    "escape": '"',
    "emptyValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "multiLine": "true",
}


def text_columns(result: "DataFrame") -> "DataFrame":
    """Return the result with times as text, and with lists and objects as JSON: neither Python nor CSV changes these.

    Python would convert a time to the local time zone, where the latest times may exceed Python's calendar.
    """
    from pyspark.sql import functions, types

    # A result may have several columns with the same name.
    renamed_result = result.toDF(*(f"c{number}" for number in range(len(result.columns))))
    columns = []
    for field, name in zip(renamed_result.schema, result.columns, strict=True):
        column = functions.col(field.name)
        if isinstance(field.dataType, types.TimestampType):
            column = functions.date_format(column, _TIME_FORMAT)
        elif isinstance(field.dataType, types.TimestampNTZType):
            column = functions.date_format(column, _TIME_FORMAT.removesuffix("XXX"))
        elif isinstance(field.dataType, (types.ArrayType, types.MapType, types.StructType)):
            column = functions.to_json(column, {"timestampFormat": _TIME_FORMAT})
        columns.append(column.alias(name))
    return renamed_result.select(*columns)


def json_lines(result: "DataFrame") -> "DataFrame":
    """Return the result as one column, with a JSON object for each row."""
    from pyspark.sql import functions

    return result.select(functions.to_json(functions.struct("*"), {"timestampFormat": _TIME_FORMAT}))


def split_queries(text: str) -> list[str]:
    """Return the queries in a text, separated by semicolons; semicolons in quotes and comments do not count."""
    token = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|;", re.DOTALL)
    texts, start = [], 0
    for match in token.finditer(text):
        if match[0] == ";":
            texts.append(text[start : match.start()])
            start = match.end()
    texts.append(text[start:])
    return [query for query in map(str.strip, texts) if query and not _is_comment(query)]


def _is_comment(query: str) -> bool:
    """Return True if the query consists of comments and blank lines."""
    return all(not line.strip() or line.strip().startswith("--") for line in query.splitlines())


class SqlSession:
    """Runs queries over the topics and states of a project."""

    def __init__(
        self,
        context: "SparkContext",
        connection: Connection,
        settings: "Settings",
        time_or_positions: str | Callable[[str], Mapping[int, int]] | None = None,
        flags: Mapping[str, str] | None = None,
    ) -> None:
        """`time_or_positions` limits the events of the state views: a time (RFC 3339), or a function from an events
        topic to {partition: end offset}, which raises `UsageError` for a topic without offsets. `flags`: the options of
        the data source that choose the cluster and its topics.
        """
        self._context, self._connection, self._settings = context, connection, settings
        self._time_or_positions = time_or_positions
        self._flags = dict(flags or {})
        self._created_views: set[str] = set()
        self._results: list[Any] = []
        self._spark = dataframes(context)
        for name, value in _SETTINGS.items():
            self._spark.conf.set(name, value)
        names = registry.names(settings.aggregates, settings.root)
        aggregates = [registry.load(name, settings.aggregates, settings.root) for name in names]
        self._topic_views = view_reads(aggregates)
        self._state_views = {state_view(aggregate.name): aggregate for aggregate in aggregates}

    @property
    def names(self) -> list[str]:
        """The names of all views."""
        return sorted([*self._topic_views, *self._state_views], key=str.lower)

    def query(self, text: str) -> "DataFrame":
        """Return the result of a query, which Spark computes when it is read. Raises `UsageError` for a text that Spark
        does not understand.
        """
        with self.one_line_errors():
            self._create_named_views(text)
            return self._spark.sql(text)

    def write(self, result: "DataFrame", target: Target) -> int:
        """Write a result to a folder, which appears complete or not at all; return the number of rows."""
        with staging_folder(self._context, target) as folder, self.one_line_errors():
            output = text_columns(result) if target.format == "csv" else result
            options = _CSV if target.format == "csv" else {"timestampFormat": _TIME_FORMAT}
            output.write.mode("overwrite").options(**options).format(target.format).save(folder)
            reader = self._spark.read.format(target.format).options(**options).schema(output.schema)
            return reader.load(folder).count()

    @contextmanager
    def one_line_errors(self) -> Iterator[None]:
        """Convert every error that Spark raises in the block into a `CqrsError` with a message of one line."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.logger import PySparkLogger

        # This logger would first print the JVM's stack.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        try:
            yield
        except (PySparkException, Py4JError) as error:
            self.check_results()
            raise self._error_from(error) from error
        self.check_results()

    def check_results(self) -> None:
        """Raise the gravest error of the tasks that folded states: without it, rows would be missing silently."""
        for results in self._results:
            raise_gravest(results.value.values())

    def _create_named_views(self, text: str) -> None:
        """Create the views that the query `text` names. A query with SHOW, such as `SHOW VIEWS`, creates all views of
        existing topics.

        Exception: if `time_or_positions` is a function, SHOW creates only the state views that the query names, because
        the function may have no offsets for some topics.
        """
        words = {word.lower() for word in _WORD.findall(text)}
        for name in self.names:
            is_shown = "show" in words and not (
                callable(self._time_or_positions) and name in self._state_views
            )
            if name not in self._created_views and (is_shown or name.lower() in words):
                try:
                    self._create_view(name)
                except ConfigurationError:
                    if name.lower() in words:
                        raise

    def _create_view(self, name: str) -> None:
        if name in self._topic_views:
            views(self._spark, self._settings.root, only=[name], **self._flags)
        else:
            self._create_state_view(name)
        self._created_views.add(name)

    def _create_state_view(self, name: str) -> None:
        aggregate, settings = self._state_views[name], self._settings
        topics = Topics(aggregate.name, settings.topic_prefix)
        positions = self._time_or_positions(topics.events) if callable(self._time_or_positions) else None
        time = None if callable(self._time_or_positions) else self._time_or_positions
        plan = plan_replay(
            self._connection,
            topics,
            settings.aggregates,
            settings.root,
            time,
            positions,
            settings.partitioner,
        )
        plan = replace(plan, with_personal_values=self._connection.keys is not None)
        results = result_accumulator(self._context, ReplayResult)
        self._results.append(results)
        count = len(plan.bounds)
        rows = partial(aggregate_rows, plan, results, "parquet")
        partitions = self._spark.range(0, count, 1, count)
        partitions.mapInArrow(rows, state_schema(aggregate.state)).createOrReplaceTempView(f"`{name}`")

    def _error_from(self, error: Exception) -> CqrsError:
        from pyspark.errors import AnalysisException, ParseException

        text = "\n".join(error_texts(error))
        for class_name, message_and_hint in _CQRS_ERROR.findall(text)[-1:]:
            error_class = getattr(errors, class_name, None)
            if isinstance(error_class, type):
                message, _, hint = message_and_hint.partition("; ")
                return error_class(message, hint)  # type: ignore[no-any-return]
        line = " ".join(text.strip().partition("\n")[0].split()).rstrip(";")
        if isinstance(error, ParseException):
            return UsageError(f"not SQL: {line}", "write a query of Spark SQL")
        if isinstance(error, AnalysisException):
            return UsageError(line, self._view_hint(text))
        if isinstance(failure := spark_failure(self._context, error), ConfigurationError):
            return failure
        hint = "Spark's log in .cqrs/log has more"
        if self._connection.keys is not None:
            hint = f"{hint}, and values, with --conf spark.log.level=ERROR"
        return CqrsError(f"the query failed: {line[:300]}", hint)

    def _view_hint(self, text: str) -> str:
        match = re.search(r"TABLE_OR_VIEW_NOT_FOUND.*?`([^`]+)`", text, re.DOTALL)
        if match is None:
            return "correct the query"
        return f"{did_you_mean(match[1], self.names)} there are {', '.join(self.names)}".lstrip()
