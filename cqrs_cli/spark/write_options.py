"""Parses the options of a write, which sends rows as commands."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.errors import UsageError
from cqrs_cli.spark.options import TopicOptions, documented_options, topic_options

#: The options, spelled as in the documentation; Spark ignores case.
WRITE_OPTIONS = (
    "aggregate",
    "type",
    "ids",
    "badRecordsPath",
    "project",
    "bootstrapServer",
    "commandConfig",
    "prefix",
)

#: The options that Spark itself adds for a stream.
_CHECKPOINT, _QUERY_NAME = "checkpointLocation", "queryName"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)


@dataclass(frozen=True, slots=True)
class WriteOptions(TopicOptions):
    """The parsed options of a write."""

    #: True: the id of a command contains the row's number; False: a column has the id.
    numbers_rows: bool = False
    checkpoint: str | None = None  # path or URI of a stream's checkpoint
    bad_records_path: str | None = None  # absolute path or URI of the folder for invalid rows


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the parsed options; raise `UsageError` for an unknown option or an invalid value."""
    texts = documented_options(options, (*WRITE_OPTIONS, _CHECKPOINT, _QUERY_NAME))
    ids = texts.get("ids", "column")
    if ids not in ("column", "rows"):
        raise UsageError(f"option ids: there is no {ids[:40]!r}", "one of column, rows")
    return WriteOptions(
        **topic_options(texts),
        kind="commands",
        numbers_rows=ids == "rows",
        checkpoint=_folder_uri(texts.get(_CHECKPOINT)),
        bad_records_path=_folder_uri(texts.get("badRecordsPath")),
    )


def _folder_uri(text: str | None) -> str | None:
    """Convert a path or URI for Spark into the form for `open_folder`. Paths are relative to the current folder."""
    if not text or _SCHEME.match(text):
        return text and text.replace("s3a://", "s3://", 1)
    return str(Path(text).expanduser().absolute())
