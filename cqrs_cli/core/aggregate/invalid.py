"""Errors in the code of an aggregate."""

import re
from pathlib import Path
from types import TracebackType

_MISSING = re.compile(r"^Missing required argument ('\w+')$")
_UNSAFE = "Instead configure a `default_factory` for this field."
_FACTORY = "Write `cqrs.field(default_factory=…)`, so that each message or state gets its own."


#: Errors of the process, not of the code that was running: they may pass when it is tried again. Not `RecursionError`.
PROCESS_ERRORS = (MemoryError, OSError, SystemExit)


class InvalidAggregate(TypeError):
    """A decider cannot be put on the wire as it is written; `where` is the function or class to correct."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where


def raised(error: BaseException, package: str = "") -> str:
    """The words of an exception of an aggregate's code, after its place in `package` if it has one there.

    Asking for the words runs that code again, which may raise again.
    """
    place = _place(error.__traceback__, package)
    return f"{place}: {_words(error)}" if place else _words(error)


def _place(traceback: TracebackType | None, package: str) -> str:
    """`subscription.py:126`: the innermost line of the package, or module, that the exception came through."""
    place = ""
    while traceback is not None and package:
        file = traceback.tb_frame.f_code.co_filename
        module = f"{traceback.tb_frame.f_globals.get('__name__')}."
        if module.startswith(f"{package}.") and not file.startswith("<"):  # as of a dataclass's `__init__`
            place = f"{Path(file).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return name
    said = _MISSING.sub(r"the field \1 has no default and was not given", said.replace(_UNSAFE, _FACTORY))
    return f"{name}: {said}" if said else name
