"""Differences as rows: columns, or lines of JSON."""

from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.jobs.engine.staging import LINES, FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from cqrs_cli.proof.whatif.difference import HistoryDifference

#: The schema of differences in Parquet; `was` and `would` are JSON.
DIFFERENCE_COLUMNS = (
    "kind string, was_result string, would_result string, partition int, offset bigint, subject string, id string, "
    "type string, was string, would string"
)

#: Differences given to Spark at once.
ROWS_AT_ONCE = 1_000


def difference_schema(format: FileFormat) -> str:
    """The schema of the rows."""
    return DIFFERENCE_COLUMNS if format == "parquet" else LINES


def difference_rows(
    found: "Iterator[HistoryDifference]", format: FileFormat
) -> "Iterator[pyarrow.RecordBatch]":
    """The differences as batches of rows."""
    while some := list(islice(found, ROWS_AT_ONCE)):
        yield _columns(some) if format == "parquet" else _lines(some)


def difference_document(one: "HistoryDifference") -> dict[str, Any]:
    """A difference as JSON."""
    document = {**one._asdict(), "was": Raw(one.was), "would": Raw(one.would)}
    return {name: value for name, value in document.items() if value is not None}


def _columns(some: "list[HistoryDifference]") -> "pyarrow.RecordBatch":
    import pyarrow

    texts = pyarrow.string()
    kinds = [texts] * 3 + [pyarrow.int32(), pyarrow.int64()] + [texts] * 5
    rows = [one._replace(was=one.was.decode(), would=one.would.decode()) for one in some]  # type: ignore[arg-type]
    arrays = [
        pyarrow.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(some[0]._fields))


def _lines(some: "list[HistoryDifference]") -> "pyarrow.RecordBatch":
    import pyarrow

    lines = [encode_json(difference_document(one)).decode() for one in some]
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(lines, pyarrow.string())], ["line"])
