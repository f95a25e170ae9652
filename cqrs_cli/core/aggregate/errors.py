"""Errors in the code of an aggregate, and the text of exceptions that this code raises."""

import inspect
import re
import sys
import threading
from pathlib import Path
from types import TracebackType

#: Replacements for msgspec's error messages.
_REPLACEMENTS = (
    (r"^Missing required argument ('\w+')$", r"the field \1 has no default and no value"),
    (r"^Unexpected keyword argument ('\w+')$", r"there is no field \1"),
    (r"^Extra positional arguments provided$", "there are more values than fields"),
    (
        r"^Argument ('\w+') given by name and position$",
        r"the field \1 has two values, by name and by position",
    ),
    (
        r"^Required field ('\w+') cannot follow optional fields\..*$",
        r"the field \1 has no default, and is after a field with a default: move it up, or give it a default",
    ),
    (
        r"Instead configure a `default_factory` for this field\.",
        "Write `cqrs.field(default_factory=…)`, so that each message or state gets its own.",
    ),
)


#: Errors of the process, not of the running code: a retry may succeed. `RecursionError` is an error of the code.
PROCESS_ERRORS = (MemoryError, OSError, SystemExit)


def is_interrupt(error: BaseException) -> bool:
    """Return True for a `KeyboardInterrupt` that may be Ctrl-C, which Python raises in the main thread only.

    In any other thread, such as an owner's, it is an exception of the running code like any other.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def raised_by_cqrs(error: BaseException) -> bool:
    """Return True if the innermost function of the traceback belongs to cqrs, and not to the code of the aggregate."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = "" if traceback is None else str(traceback.tb_frame.f_globals.get("__name__"))
    return module.startswith("cqrs_cli.")


class InvalidAggregate(TypeError):
    """A decider that cannot be used; `where` is the function or class to correct."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where


def class_name(cls: type) -> str:
    """Return the name of a class for messages without personal values.

    Code may create a class whose name contains a value. So a name is only returned if the class can be found under it
    in its module; otherwise the name of the first base class for which this is true.
    """
    for base_class in cls.__mro__:  # ends with `object`, which is known
        if getattr(sys.modules.get(base_class.__module__), base_class.__name__, None) is base_class:
            break
    return base_class.__name__


def describe_error(error: BaseException, package: str = "", with_message: bool = True) -> str:
    """Return line and message of an exception: `wallet.py:12: KeyError: 'EUR'`; the line only if it is in `package`.

    Without `with_message` the class of the exception replaces the message. Formatting a message runs the aggregate's
    code, which may raise again.
    """
    line, text = (
        error_line(error.__traceback__, package),
        _message_of(error) if with_message else class_name(type(error)),
    )
    return f"{line}: {text}" if line else text


def without_message(error: BaseException) -> BaseException:
    """Return a copy of an exception for tracebacks: same name and line, without message, notes, cause and context. The
    copy of a process error is a process error.
    """
    error_class = type(error)
    base = next((base_error for base_error in PROCESS_ERRORS if isinstance(error, base_error)), Exception)
    bare_class: type[BaseException] = type(
        class_name(error_class), (base,), {"__module__": error_class.__module__}
    )
    copy = bare_class().with_traceback(error.__traceback__)
    copy.__suppress_context__ = True  # a traceback would print `error` as its context
    return copy


def error_line(traceback: TracebackType | None, package: str) -> str:
    """Return the innermost line of the package or module in a traceback, such as `subscription.py:126`."""
    line = ""
    while traceback is not None and package:
        file = traceback.tb_frame.f_code.co_filename
        module = f"{traceback.tb_frame.f_globals.get('__name__')}."
        if module.startswith(f"{package}.") and not file.startswith("<"):  # not generated code
            line = f"{Path(file).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line


def class_line(cls: type | None) -> str:
    """Return the first line of a class, such as `bank_account.py:38`; empty without a class or its source."""
    if cls is None:
        return ""
    try:
        return f"{Path(inspect.getfile(cls)).name}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""


def _message_of(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException as formatting_error:
        if is_interrupt(formatting_error):
            raise
        return name
    for pattern, replacement in _REPLACEMENTS:
        message = re.sub(pattern, replacement, message)
    return f"{name}: {message}" if message else name
