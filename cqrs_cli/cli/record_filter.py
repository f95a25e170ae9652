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
    _check("--status", statuses, STATUSES, kind in ("outcomes",), "outcomes")
    names = [reason.name for reason in Reason]
    _check("--reason", reasons, names, kind in ("outcomes", "dead-letters"), "outcomes and dead-letters")

    def keep(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        if not (types or statuses or reasons):
            return True
        message, headers = _object(record.value), dict(record.headers or ())
        data = message.get("data")
        told = data if isinstance(data, dict) else {}
        if statuses and told.get("status") not in statuses:
            return False
        if reasons and told.get("reason", _text(headers.get("cqrs.reason"))) not in reasons:
            return False
        found = str(message.get("type", _text(headers.get("ce_type"))))
        return not types or any(
            _is_of(found.removeprefix(f"{aggregate}."), wanted, aggregate) for wanted in types
        )

    return keep


def _check(flag: str, given: Collection[str], known: Collection[str], here: bool, where: str) -> None:
    if given and not here:
        raise UsageError(f"{flag} is for {where}", f"the other topics have none: leave {flag} out")
    for text in given:
        if text not in known:
            raise UsageError(f"{flag}: there is no {text!r}", f"there are: {', '.join(known)}")


def _is_of(found: str, wanted: str, aggregate: str) -> bool:
    name = wanted.removeprefix(f"{aggregate}.")
    return found == name or found.rpartition(".")[0] == name


def _object(value: bytes | None) -> Mapping[str, Any]:
    try:
        decoded = msgspec.json.decode(value or b"")
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")
