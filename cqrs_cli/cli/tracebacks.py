"""The tracebacks of errors, as `-v` shows them."""

import traceback
from collections.abc import Iterator

from cqrs_cli.errors import CqrsError


def traced(error: BaseException) -> str:
    """The traceback of an error and of what led to it."""
    return "".join(traceback.format_exception(error))


def traced_without_words(error: BaseException) -> str:
    """The same with the class of each error in place of its words, in which a personal value may stand.

    Errors of cqrs keep their words: they are made without such values.
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
