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
    """Return a function that is True for a record with this key and one of these types, statuses and reasons.

    A type may omit the aggregate's name: `bank_account.Deposit` or `Deposit`. For outcomes it is the command's type,
    with or without the status: `Deposit.accepted`. Raises `UsageError` for an unknown status or reason, and for a topic
    without statuses or reasons.
    """
    _check_values("--status", statuses, STATUSES, kind == "outcomes", "outcomes")
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
        message_type = str(message.get("type", _text(headers.get("ce_type"))))
        return not types or any(
            _is_type(message_type.removeprefix(f"{aggregate}."), filter_type, aggregate)
            for filter_type in types
        )

    return matches


def _check_values(
    flag: str, values: Collection[str], allowed_values: Collection[str], is_allowed: bool, topics: str
) -> None:
    if values and not is_allowed:
        raise UsageError(f"{flag} is for {topics}", f"leave {flag} out for other topics")
    for value in values:
        if value not in allowed_values:
            raise UsageError(f"{flag}: there is no {value!r}", f"there are: {', '.join(allowed_values)}")


def _is_type(message_type: str, filter_type: str, aggregate: str) -> bool:
    name = filter_type.removeprefix(f"{aggregate}.")
    return message_type == name or message_type.rpartition(".")[0] == name


def _json_object(value: bytes | None) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(value or b"")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")
