"""Errors in the code of an aggregate."""

import inspect
import re
from pathlib import Path
from types import TracebackType

#: The words of msgspec, and ours.
_WORDS = (
    (r"^Missing required argument ('\w+')$", r"the field \1 has no default and was not given"),
    (r"^Unexpected keyword argument ('\w+')$", r"there is no field \1"),
    (r"^Extra positional arguments provided$", "more values were given than there are fields"),
    (r"^Argument ('\w+') given by name and position$", r"the field \1 was given twice"),
    (
        r"^Required field ('\w+') cannot follow optional fields\..*$",
        r"the field \1 has no default, and stands after one that has: move it up, or give it a default",
    ),
    (
        r"Instead configure a `default_factory` for this field\.",
        "Write `cqrs.field(default_factory=…)`, so that each message or state gets its own.",
    ),
)


#: Errors of the process, not of the code that was running: they may pass when it is tried again. Not `RecursionError`.
PROCESS_ERRORS = (MemoryError, OSError, SystemExit)


class InvalidAggregate(TypeError):
    """A decider cannot be put on the wire as it is written; `where` is the function or class to correct."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where


def raised(error: BaseException, package: str = "", in_words: bool = True) -> str:
    """The words of an exception of an aggregate's code, after its place in `package` if it has one there.

    Asking for the words runs that code again, which may raise again. Without words it is the exception's class.
    """
    place, said = raised_at(error.__traceback__, package), _words(error) if in_words else type(error).__name__
    return f"{place}: {said}" if place else said


def without_words(error: BaseException) -> BaseException:
    """An exception of the same name, from the same place, without words, notes and what led to it: for tracebacks. An
    error of the process stays one.
    """
    kind = type(error)
    base = next((one for one in PROCESS_ERRORS if isinstance(error, one)), Exception)
    bare: type[BaseException] = type(kind.__name__, (base,), {"__module__": kind.__module__})
    shown = bare().with_traceback(error.__traceback__)
    shown.__suppress_context__ = True  # where it is raised while `error` is handled, that is not told either
    return shown


def raised_at(traceback: TracebackType | None, package: str) -> str:
    """`subscription.py:126`: the innermost line of the package, or module, that the exception came through."""
    place = ""
    while traceback is not None and package:
        file = traceback.tb_frame.f_code.co_filename
        module = f"{traceback.tb_frame.f_globals.get('__name__')}."
        if module.startswith(f"{package}.") and not file.startswith("<"):  # as of a dataclass's `__init__`
            place = f"{Path(file).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def written_at(cls: type | None) -> str:
    """`bank_account.py:38`: where a class begins; empty where there is none, or its source is not at hand."""
    if cls is None:
        return ""
    try:
        return f"{Path(inspect.getfile(cls)).name}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return name
    for theirs, ours in _WORDS:
        said = re.sub(theirs, ours, said)
    return f"{name}: {said}" if said else name
