"""The tracebacks of errors, as `-v` shows them."""

import traceback
from collections.abc import Iterator

from cqrs_cli.core.aggregate.errors import class_name
from cqrs_cli.errors import CqrsError


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error and of its causes."""
    return "".join(traceback.format_exception(error))


def redacted_traceback(error: BaseException) -> str:
    """Return the traceback with only the class of each error, because its text may contain a personal value.

    Errors of cqrs keep their text, which never contains personal values.
    """
    return "\n".join(reversed([_error_traceback(cause) for cause in _causes(error)]))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _error_traceback(error: BaseException) -> str:
    text = f": {error.message}" if isinstance(error, CqrsError) else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"Traceback (most recent call last):\n{frames}{class_name(type(error))}{text}\n"
