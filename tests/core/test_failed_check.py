"""Commands that fail a check: the tracebacks that are kept in addition to the outcome."""

import traceback
from contextlib import suppress

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.failed_check import record_failed_check
from cqrs_cli.core.messages.outcome import VerdictWithoutDeferral
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from tests.core.tally import command, record


class UnprintableError(Exception):
    """An exception that cannot be formatted."""

    @property
    def __suppress_context__(self) -> bool:  # type: ignore[override]
        raise RuntimeError("not to be seen")


def tracebacks(*errors: Exception) -> dict[str, str]:
    """Return the kept tracebacks of errors that `decide` raised at one line, by line and type."""
    decisions, context = Decisions(0), BatchContext(0, lambda _: None, lambda *_: None, lambda: 0)
    for error in errors:
        with suppress(Exception):
            raise error
        failed_check = CheckFailed(Reason.HANDLER_ERROR, f"tally.py:7: {type(error).__name__}: {error}")
        failed_check.__cause__ = error
        record_failed_check(
            decisions, context, record(0, command()), VerdictWithoutDeferral(status=""), failed_check
        )
    assert decisions.reason_counts == {"HANDLER_ERROR": len(errors)} and len(decisions.dead_letters) == len(
        errors
    )
    return decisions.tracebacks


def test_equal_error_types_share_a_traceback() -> None:
    first, second = KeyError("KeyError 1"), KeyError("KeyError 2")
    assert tracebacks(first, second) == {"tally.py:7: KeyError": "".join(traceback.format_exception(first))}


def test_end_of_long_traceback_is_kept() -> None:
    text = tracebacks(ValueError("x" * 20_000 + "y"))["tally.py:7: ValueError"]
    assert text == "x" * 9_998 + "y\n"


def test_error_that_cannot_be_shown_is_counted() -> None:
    assert tracebacks(UnprintableError("once")) == {}


def test_only_errors_of_the_code_are_kept() -> None:
    decisions, context = Decisions(0), BatchContext(0, lambda _: None, lambda *_: None, lambda: 0)
    failed_check = CheckFailed(Reason.BUSINESS_RULE, "no")
    failed_check.__cause__ = KeyError("why")
    record_failed_check(
        decisions, context, record(0, command()), VerdictWithoutDeferral(status=""), failed_check
    )
    assert decisions.tracebacks == {}
