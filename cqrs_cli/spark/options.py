"""Parses the options of a read. Spark passes options as text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.settings.moments import parse_moment

#: The topics that can be read.
SourceKind = Literal["commands", "events", "outcomes"]
SOURCE_KINDS: tuple[SourceKind, ...] = ("commands", "events", "outcomes")

#: The options, spelled as in the documentation; Spark ignores case.
OPTIONS = (
    "aggregate",
    "topic",
    "type",
    "project",
    "bootstrapServer",
    "commandConfig",
    "prefix",
    "startingOffsets",
    "since",
    "endingOffsets",
    "until",
    "splits",
    "maxRecordsPerBatch",
)

#: The options that are allowed only for a batch read, and only for a stream.
_BATCH_ONLY = ("endingOffsets", "until")
_STREAM_ONLY = ("maxRecordsPerBatch",)


class Bound(NamedTuple):
    """The start or end of a read, such as `Bound("offsets", {0: 1200, 1: 0})` or
    `Bound("time", time=1_764_547_200_000)`.
    """

    kind: Literal["earliest", "latest", "offsets", "time"]
    offsets: Mapping[int, int] = {}  # partition → offset, if `kind` is `offsets`
    time: int = 0  # ms since the epoch, if `kind` is `time`


EARLIEST, LATEST = Bound("earliest"), Bound("latest")


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options that select the topic of a read or write."""

    aggregate: str
    kind: SourceKind = "events"
    type: str | None = None  # `Deposited`, or the wire type `bank_account.Deposited`; None: all types
    project: Path = field(default_factory=Path.cwd)  # the project's folder
    flags: Mapping[str, object] = field(default_factory=dict)  # settings that override the project's settings


@dataclass(frozen=True, slots=True)
class ReadOptions(TopicOptions):
    """The parsed options of a read."""

    start: Bound = EARLIEST
    end: Bound = LATEST
    splits: int | None = None
    max_records: int | None = None  # the maximum number of records in a stream's batch


def parse_options(options: Mapping[str, str], streaming: bool | None = None) -> ReadOptions:
    """Return the parsed options. `streaming`: True for a stream, False for a batch read, None if it is not known yet.

    Raises `UsageError` for an unknown option or an invalid value. The error never contains the value of an unknown
    option.
    """
    texts = documented_options(options, OPTIONS)
    for name in {None: (), True: _BATCH_ONLY, False: _STREAM_ONLY}[streaming]:
        if name in texts:
            raise UsageError(
                f"option {name}: a {'stream' if streaming else 'batch'} has no such option", "leave it out"
            )
    kind = texts.get("topic", "events")
    if kind not in SOURCE_KINDS:
        raise UsageError(f"option topic: there is no {kind[:40]!r}", f"one of {', '.join(SOURCE_KINDS)}")
    if kind == "outcomes" and "type" in texts:
        raise UsageError(
            "option type: outcomes have columns of their own", "leave it out, and filter by `type`"
        )
    return ReadOptions(
        **topic_options(texts),
        kind=kind,
        start=_bound(texts, "startingOffsets", "since", "earliest"),
        end=_bound(texts, "endingOffsets", "until", "latest"),
        splits=_count(texts, "splits"),
        max_records=_count(texts, "maxRecordsPerBatch"),
    )


def documented_options(options: Mapping[str, str], known_names: tuple[str, ...]) -> dict[str, str]:
    """Return the options by their documented names; raise `UsageError` for an unknown or a missing option."""
    by_lower = {name.lower(): name for name in known_names}
    texts = {}
    for name, text in options.items():
        documented_name = by_lower.get(name.lower())
        if documented_name is None:
            hint = did_you_mean(name, known_names) or f"known: {', '.join(known_names)}"
            raise UsageError(f"unknown option {name[:60]!r}", hint)
        texts[documented_name] = text
    if not texts.get("aggregate"):
        raise UsageError("option aggregate is missing", 'write .option("aggregate", "order")')
    return texts


def topic_options(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that reads and writes have in common, as arguments of `TopicOptions`."""
    return {
        "aggregate": texts["aggregate"],
        "type": texts.get("type"),
        "project": Path(texts.get("project", ".")).expanduser().absolute(),
        "flags": _flags(texts),
    }


def _flags(texts: Mapping[str, str]) -> dict[str, object]:
    """Return the options that override settings of the project. Paths are relative to the current folder."""
    flags: dict[str, object] = {
        "bootstrap_server": texts.get("bootstrapServer"),
        "topic_prefix": texts.get("prefix"),
    }
    if "commandConfig" in texts:
        flags["command_config"] = Path(texts["commandConfig"]).expanduser().absolute()
    return {name: value for name, value in flags.items() if value is not None}


def _bound(
    texts: Mapping[str, str], by_offset: str, by_time: str, default: Literal["earliest", "latest"]
) -> Bound:
    if by_offset in texts and by_time in texts:
        raise UsageError(
            f"options {by_offset} and {by_time}: both set the same bound", "leave one of them out"
        )
    if by_time in texts:
        try:
            return Bound("time", time=parse_moment(texts[by_time]))
        except ValueError as error:
            raise UsageError(f"option {by_time}: {error}", "correct it") from None
    text = texts.get(by_offset, default)
    if text in ("earliest", "latest"):
        return Bound(cast(Literal["earliest", "latest"], text))
    return Bound("offsets", _offsets(by_offset, text))


def _offsets(name: str, text: str) -> dict[int, int]:
    try:
        document = json.loads(text)
        offsets = {int(partition): offset for partition, offset in document.items()}
        if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
            raise ValueError
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise UsageError(
            f"option {name}: not offsets: {text[:60]!r}",
            'earliest, latest, or an offset for each partition: {"0": 1200, "1": 0}',
        ) from None
    return offsets


def _count(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:19]) < 2**31):
        raise UsageError(f"option {name}: not a number from 1 on: {text[:40]!r}", "correct it")
    return int(text)
