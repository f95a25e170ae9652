"""The tracebacks of errors, as `-v` shows them."""

import traceback
from collections.abc import Iterator

from cqrs_cli.errors import CqrsError


def traced(error: BaseException) -> str:
    """Return the traceback of an error and of its causes."""
    return "".join(traceback.format_exception(error))


def traced_without_words(error: BaseException) -> str:
    """Return the traceback with only the class of each error, because its text may contain a personal value.

    Errors of cqrs keep their text, which never contains personal values.
    """
    return "\n".join(reversed([_of_one(one) for one in _chain(error)]))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _of_one(error: BaseException) -> str:
    said = f": {error.message}" if isinstance(error, CqrsError) else ""
    place = "".join(traceback.format_tb(error.__traceback__))
    return f"Traceback (most recent call last):\n{place}{type(error).__name__}{said}\n"
