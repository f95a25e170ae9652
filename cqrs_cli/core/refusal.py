"""The traces of a refused command: its verdict, its dead letter, and the count of its reason."""

import traceback
from contextlib import suppress
from typing import Any

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.messages.outcome import WrittenVerdict, cut, dead_letter
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record

#: The last characters of a traceback that are kept.
_MOST_TRACEBACK = 10_000


def note_refusal(
    done: Decisions, context: BatchContext, record: Record, verdict: WrittenVerdict, refused: Refused
) -> dict[str, Any]:
    """Note what a check says of a command. The result has the members of its outcome that only deferred ones have."""
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
    """Keep where the aggregate's code raised, once for each place and kind."""
    name = type(error).__name__
    kind = message.partition(name)[0] + name
    if kind not in done.raised:
        with suppress(Exception):  # to show an error may run the aggregate's code again
            done.raised[kind] = "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
