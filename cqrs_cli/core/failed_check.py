"""Records a failed check: the verdict of its command, a dead letter, and the count of the reason."""

import traceback
from contextlib import suppress
from typing import Any

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.messages.outcome import WrittenVerdict, cut, dead_letter
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record

#: The limit of a kept traceback, in characters; its end is kept.
_MOST_TRACEBACK = 10_000


def note_refusal(
    done: Decisions, context: BatchContext, record: Record, verdict: WrittenVerdict, refused: CheckFailed
) -> dict[str, Any]:
    """Complete the verdict, count the reason, and add a dead letter for a failed command.

    Return the additional fields of the outcome if the command is deferred, else an empty dict.
    """
    reason = refused.reason
    verdict.status = reason.status
    verdict.reason = reason.name
    verdict.message = cut(refused.message)
    verdict.retryable = reason.retryable
    done.reasons[reason.name] = done.reasons.get(reason.name, 0) + 1
    if reason is Reason.HANDLER_ERROR and refused.__cause__ is not None:
        _keep_traceback(done, refused.message, refused.__cause__)
    if reason.status == "failed":
        letter = dead_letter(record, context.topic, context.partition, reason.name, refused.message)
        done.dead_letters.append(letter)
    if reason.status == "deferred":
        return refused.members
    for name, value in refused.members.items():
        setattr(verdict, name, value)
    return {}


def _keep_traceback(done: Decisions, message: str, error: BaseException) -> None:
    """Keep the traceback of the aggregate's error, once for each combination of line and exception class."""
    name = type(error).__name__
    kind = message.partition(name)[0] + name
    if kind not in done.raised:
        with suppress(Exception):  # formatting runs the aggregate's code, which may raise again
            done.raised[kind] = "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
