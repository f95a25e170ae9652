"""The filter of the records that `cqrs tail` prints."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import UsageError


def record_filter(
    kind: str,
    aggregate: str,
    key: bytes | None,
    types: Collection[str],
    statuses: Collection[str],
    reasons: Collection[str],
) -> Callable[[Record], bool]:
    """Return a function that is true for a record with this key and one of the given types, statuses and reasons.

    A type is given with or without the aggregate's name; for outcomes it is the command's type, with or without the
    status. Raises `UsageError` for an unknown status or reason, and for a topic without statuses or reasons.
    """
    _check_values("--status", statuses, STATUSES, kind in ("outcomes",), "outcomes")
    names = [reason.name for reason in Reason]
    _check_values(
        "--reason", reasons, names, kind in ("outcomes", "dead-letters"), "outcomes and dead-letters"
    )

    def matches(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        if not (types or statuses or reasons):
            return True
        message, headers = _json_object(record.value), dict(record.headers or ())
        data = message.get("data")
        outcome = data if isinstance(data, dict) else {}
        if statuses and outcome.get("status") not in statuses:
            return False
        if reasons and outcome.get("reason", _text(headers.get("cqrs.reason"))) not in reasons:
            return False
        type_name = str(message.get("type", _text(headers.get("ce_type"))))
        return not types or any(
            _is_type(type_name.removeprefix(f"{aggregate}."), wanted, aggregate) for wanted in types
        )

    return matches


def _check_values(
    flag: str, given: Collection[str], known: Collection[str], is_allowed: bool, topics: str
) -> None:
    if given and not is_allowed:
        raise UsageError(f"{flag} is for {topics}", f"the other topics have none: leave {flag} out")
    for text in given:
        if text not in known:
            raise UsageError(f"{flag}: there is no {text!r}", f"there are: {', '.join(known)}")


def _is_type(type_name: str, wanted: str, aggregate: str) -> bool:
    name = wanted.removeprefix(f"{aggregate}.")
    return type_name == name or type_name.rpartition(".")[0] == name


def _json_object(value: bytes | None) -> Mapping[str, Any]:
    try:
        decoded = msgspec.json.decode(value or b"")
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")
