"""Reads offsets of partitions from a file, for options such as `--at @positions.json`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cqrs_cli.errors import UsageError

#: The content of such a file, for messages.
_FORMAT = 'an offset for each partition, {"0": 1200, "1": 0}, or a certificate'


class PositionsFile:
    """A file of offsets: a JSON object, `{"0": 1200, "1": 0}`, or a certificate, with the end of each partition."""

    def __init__(self, flag: str, file: Path) -> None:
        """Raises `UsageError` for a file that cannot be read."""
        self._flag, self._file = flag, file
        self._used_for = ""  # the topic for which the offsets were used, if the file names no topic
        try:
            self._content = json.loads(file.read_bytes())
        except OSError as error:
            raise UsageError(
                f"{flag}: cannot read {file}: {error.strerror}", f"name a file with {_FORMAT}"
            ) from None
        except (ValueError, RecursionError):
            self._content = None

    def check_topics(self, topics: Iterable[str]) -> None:
        """Raise `UsageError` unless the file has offsets of one of these topics."""
        if all(_offsets_of_topic(self._content, topic) is None for topic in topics):
            raise UsageError(
                f"{self._flag}: {self._file} has no offsets of this project's event topics",
                f"write {_FORMAT}",
            )

    def offsets_of(self, topic: str) -> dict[int, int]:
        """Return the offset of each partition of a topic. Raises `UsageError` if the file has no offsets for the topic,
        or if it names no topic and another topic has used its offsets.
        """
        offsets = _offsets_of_topic(self._content, topic)
        if offsets is None:
            raise UsageError(f"{self._flag}: {self._file} has no offsets of {topic}", f"write {_FORMAT}")
        if "topics" not in self._content:
            if self._used_for not in ("", topic):
                raise UsageError(
                    f"{self._flag}: {self._file} names no topic, and its offsets were already used for"
                    f" {self._used_for}",
                    "query the states of one aggregate",
                )
            self._used_for = topic
        return offsets


def positions_file(flag: str, text: str | None) -> PositionsFile | None:
    """Return the file of an option `@FILE`; None if the text does not begin with `@`."""
    if text is None or not text.startswith("@"):
        return None
    return PositionsFile(flag, Path(text[1:]).expanduser())


def read_positions(flag: str, text: str | None, topic: str) -> dict[int, int] | None:
    """Return partition → the offset at which reading ends, from `@FILE`; None if the text does not begin with `@`.

    Raises `UsageError` as `PositionsFile` does.
    """
    file = positions_file(flag, text)
    return None if file is None else file.offsets_of(topic)


def _offsets_of_topic(content: Any, topic: str) -> dict[int, int] | None:
    try:
        if "topics" in content:
            ends = [log["end"] for log in content["topics"][topic]["partitions"]]
            content = {str(partition): end for partition, end in enumerate(ends)}
        offsets = {int(partition): offset for partition, offset in content.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    are_valid = all(type(offset) is int and offset >= 0 for offset in offsets.values())
    return offsets if offsets and are_valid else None
