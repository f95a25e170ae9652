"""Errors of commands about aggregates with personal fields."""

import json

import pytest

from cqrs_cli.cli.output import Printer
from cqrs_cli.cli.tracebacks import redacted_traceback, traceback_text
from cqrs_cli.errors import CqrsError

PERSONAL_NAME = "Nadelheim"


def _raise_value_error() -> None:
    names: dict[str, int] = {}
    try:
        names[PERSONAL_NAME]
    except KeyError as error:
        raise ValueError(f"{PERSONAL_NAME} is not there") from error


def _raise_cqrs_error() -> None:
    try:
        _raise_value_error()
    except ValueError:
        raise CqrsError("the event cannot be read", "correct it")  # noqa: B904 - the missing `from` is the case under test


def chained_error() -> CqrsError:
    """Return an error of cqrs that was raised while another exception was handled."""
    with pytest.raises(CqrsError) as raised:
        _raise_cqrs_error()
    return raised.value


def test_tracebacks_keep_file_names() -> None:
    traceback = redacted_traceback(chained_error())
    assert PERSONAL_NAME in traceback_text(chained_error()) and PERSONAL_NAME not in traceback
    lines = [line for line in traceback.splitlines() if line and not line.startswith(" ")]
    assert [line for line in lines if not line.startswith("Traceback")] == [
        "KeyError",
        "ValueError",
        "CqrsError: the event cannot be read",
    ]
    assert traceback.count("test_tracebacks.py") == 5


@pytest.mark.parametrize("output", ["text", "json"])
def test_shown_errors_have_no_personal_values(output: str, capfd: pytest.CaptureFixture[str]) -> None:
    printer = Printer("json" if output == "json" else "text")
    printer.has_personal_data = True
    printer.print_error(chained_error(), chained_error())
    assert printer.error_text(KeyError(PERSONAL_NAME)) == "KeyError"
    assert printer.error_text(FileNotFoundError(2, "no such file", "cqrs.toml")).endswith("'cqrs.toml'")
    stderr = capfd.readouterr().err
    assert "test_tracebacks.py" in stderr and PERSONAL_NAME not in stderr
    if output == "json":
        assert json.loads(stderr)["error"]["message"] == "the event cannot be read"


def test_values_without_personal_data_are_shown() -> None:
    assert Printer().error_text(KeyError(PERSONAL_NAME)) == f"KeyError: '{PERSONAL_NAME}'"
