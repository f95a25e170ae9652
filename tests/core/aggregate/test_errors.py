"""The message about an exception in an aggregate's code."""

import inspect
from collections.abc import Callable

import pytest

from cqrs_cli.core.aggregate.errors import describe_error, error_line

PACKAGE = __name__.rpartition(".")[0]


def error_of(code: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as failure:
        code()
    return failure.value


def location_in(function: Callable[[], object], line: int) -> str:
    """Return file and line of a function's line, counted from its `def`."""
    return f"test_errors.py:{inspect.getsourcelines(function)[1] + line}"


def divide() -> None:
    raise ZeroDivisionError("by zero")


def divide_elsewhere() -> None:
    exec(compile("raise ZeroDivisionError('by zero')", "<string>", "exec"), globals())  # noqa: S102


def test_innermost_line_of_the_package_counts() -> None:
    """Code that was generated at run time, such as a dataclass's `__init__`, has no line in a file."""
    for function in (divide, divide_elsewhere):
        text = describe_error(error_of(function), PACKAGE)
        assert text == f"{location_in(function, 1)}: ZeroDivisionError: by zero"


def test_error_from_another_package_has_no_line() -> None:
    error = error_of(divide)
    assert describe_error(error) == describe_error(error, "elsewhere") == "ZeroDivisionError: by zero"
    assert error_line(error.__traceback__, "elsewhere") == error_line(None, PACKAGE) == ""


def test_text_has_type_and_message() -> None:
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(SyntaxError("bad", ("file.py", 3, 1, "x"))) == "SyntaxError: bad"
