"""Offsets of partitions from a file, as a place in time: `--until @positions.json`, `--at @positions.json`."""

import json
from pathlib import Path
from typing import Any

from cqrs_cli.errors import UsageError

_SHAPE = 'an offset for each partition, {"0": 1200, "1": 0}, or a file of cqrs verify --certificate'


def positions_of(flag: str, text: str | None, topic: str) -> dict[int, int] | None:
    """The offset of each partition at which a topic is cut, None for a text that does not begin with `@`.

    The file is a JSON object, or a certificate: then it is where the topic ended. Raises `UsageError` for any other.
    """
    if text is None or not text.startswith("@"):
        return None
    file = Path(text[1:]).expanduser()
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{flag}: cannot read {file}: {error.strerror}", f"name a file with {_SHAPE}"
        ) from None
    except (ValueError, RecursionError):
        found = None
    offsets = _offsets(found, topic)
    if offsets is None:
        raise UsageError(f"{flag}: {file} has no offsets of {topic}", f"write {_SHAPE}")
    return offsets


def _offsets(found: Any, topic: str) -> dict[int, int] | None:
    try:
        if "topics" in found:
            ends = [log["end"] for log in found["topics"][topic]["partitions"]]
            found = {str(partition): end for partition, end in enumerate(ends)}
        offsets = {int(partition): offset for partition, offset in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    is_sound = all(type(offset) is int and offset >= 0 for offset in offsets.values())
    return offsets if offsets and is_sound else None
