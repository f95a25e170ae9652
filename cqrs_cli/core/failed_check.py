"""Records a failed check: the verdict of its command, a dead letter, and the count of the reason."""

import traceback
from contextlib import suppress
from typing import Any

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.messages.outcome import VerdictWithoutDeferral, dead_letter, truncate
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record

#: The maximal length of a stored traceback, in characters; of a longer traceback, the end is stored.
_MAX_TRACEBACK = 10_000


def record_failed_check(
    decisions: Decisions,
    context: BatchContext,
    record: Record,
    verdict: VerdictWithoutDeferral,
    failure: CheckFailed,
) -> dict[str, Any]:
    """Complete the verdict, count the reason, and add a dead letter for a failed command.

    Return the additional fields of the outcome if the command is deferred, else an empty dict.
    """
    reason = failure.reason
    verdict.status = reason.status
    verdict.reason = reason.name
    verdict.message = truncate(failure.message)
    verdict.retryable = reason.retryable
    decisions.reason_counts[reason.name] = decisions.reason_counts.get(reason.name, 0) + 1
    if reason is Reason.HANDLER_ERROR and failure.__cause__ is not None:
        _store_traceback(decisions, failure.message, failure.__cause__)
    if reason.status == "failed":
        letter = dead_letter(record, context.topic, context.partition, reason.name, failure.message)
        decisions.dead_letters.append(letter)
    if reason.status == "deferred":
        return failure.outcome_fields
    for name, value in failure.outcome_fields.items():
        setattr(verdict, name, value)
    return {}


def _store_traceback(decisions: Decisions, message: str, error: BaseException) -> None:
    """Store the traceback of the aggregate's error, once for each combination of line and exception class."""
    name = type(error).__name__
    label = message.partition(name)[0] + name
    if label not in decisions.tracebacks:
        with suppress(Exception):  # formatting runs the aggregate's code, which may raise again
            decisions.tracebacks[label] = "".join(traceback.format_exception(error))[-_MAX_TRACEBACK:]
