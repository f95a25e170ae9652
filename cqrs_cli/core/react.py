"""Calls the `react` of a process manager for one event, and checks the commands that it returns."""

import inspect
import typing
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from msgspec import Struct

from cqrs_cli.core.aggregate.annotations import annotation_text, union_members
from cqrs_cli.core.aggregate.decider import Command, Event
from cqrs_cli.core.aggregate.errors import class_name
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.core.personal.text_redaction import personal_texts, redact_text
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.recorded import Recorded

#: The maximal number of commands for one event, because one transaction writes them all.
MAX_SENT = 10_000

_FORM = "react(event: Placed | Paid, at: cqrs.Recorded)"


class InvalidReaction(ValueError):
    """`react` returned a value that is not a valid command to send."""

    def redact(self, *structs: Struct) -> "InvalidReaction":
        """Return the error, redacted if its text contains a personal value of `structs` (the event, its commands)."""
        values = personal_texts(*structs)
        return InvalidReaction(redact_text(values, str(self))) if values else self


def subscribed_events(process: Process) -> list[type[Event]]:
    """Return the events in the annotation of the first parameter of `react`.

    Raises `TypeError` for any other annotation; its message contains the correct form.
    """
    react = process.react
    if not callable(react) or inspect.iscoroutinefunction(react) or inspect.isasyncgenfunction(react):
        raise TypeError(f"react must be a function {_FORM} with `def`, not with `async def`")
    try:
        names = list(inspect.signature(react).parameters)
        hints = typing.get_type_hints(react)
    except (NameError, AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"the annotations of react cannot be read: {error}") from error
    if len(names) != 2:
        raise TypeError(f"react must be a function {_FORM}")
    event, recorded = (hints.get(name) for name in names)
    subscribed = list(union_members(event))
    for member in subscribed:
        if not (isinstance(member, type) and issubclass(member, Event)) or member is Event:
            raise TypeError(
                f"annotate the events to which react subscribes, {_FORM}, found {annotation_text(member)}"
            )
    if Recorded not in (recorded, typing.get_origin(recorded)):
        raise TypeError(
            f"annotate the second parameter of react with cqrs.Recorded, found {annotation_text(recorded)}"
        )
    return subscribed


def call_react(process: Process, recorded: Recorded[Any]) -> tuple[Any, ...]:
    """Return the values that `react` returns for an event, which are of the class `process.yields`.

    Raises `InvalidReaction` for more than `MAX_SENT` values, for another class, and for an invalid `Send`. Errors of
    `react` pass through.
    """
    expected_class = f"cqrs.{process.yields.__name__}"
    event_type: type[Event] = type(recorded.event)
    describe = _class_name if personal_fields(event_type) else _abbreviate  # for errors
    result: object = process.react(recorded.event, recorded)
    if not isinstance(result, Iterable) or isinstance(result, (str, bytes)):
        raise InvalidReaction(f"react returned {describe(result)}, not an iterable of {expected_class}")
    values = tuple(islice(result, MAX_SENT + 1))
    if len(values) > MAX_SENT:
        raise InvalidReaction(f"react returned more than {MAX_SENT:,} {process.noun} for one event")
    for value in values:
        if not isinstance(value, process.yields):
            raise InvalidReaction(f"react returned {describe(value)}, not a {expected_class}")
        if isinstance(value, Send):
            _check_send(value, describe)
    return values


def _abbreviate(value: object) -> str:
    return f"{value!r:.100}"


def _class_name(value: object) -> str:
    """Return only the class of a value, because the value itself may contain personal data of the event."""
    return class_name(type(value))


def _check_send(send: Send, describe: Callable[[object], str]) -> None:
    if not isinstance(send.command, Command):
        raise InvalidReaction(
            f"{describe(send.command)} is not a command: send an instance of a command class of an aggregate"
        )
    for text in (send.aggregate, send.aggregate_id):
        if not isinstance(text, str):
            raise InvalidReaction(f"aggregate and aggregate_id must be text, found {describe(text)}")
    if send.expires is not None and not isinstance(send.expires, timedelta):
        raise InvalidReaction(
            f"expires must be a timedelta after the event's time, found {describe(send.expires)}"
        )
    if send.not_before is not None and not _is_moment(send.not_before):
        raise InvalidReaction(
            "not_before must be an aware datetime, or a timedelta after the event's time, found"
            f" {describe(send.not_before)}"
        )
    if send.expect is not None and not _is_expected(send.expect):
        raise InvalidReaction(
            f"expect must be a version, any, none, exists or >=N, found {describe(send.expect)}"
        )


def _is_expected(version: object) -> bool:
    if isinstance(version, bool) or not isinstance(version, (int, str)):
        return False
    try:
        parse_expected(str(version))
    except ValueError:
        return False
    return True


def _is_moment(moment: object) -> bool:
    if isinstance(moment, datetime):
        return moment.utcoffset() is not None
    return isinstance(moment, timedelta)
