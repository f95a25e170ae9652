"""Errors of commands about aggregates with personal fields."""

import json

import pytest

from cqrs_cli.cli.output import Printer
from cqrs_cli.cli.tracebacks import redacted_traceback, traceback_text
from cqrs_cli.errors import CqrsError

NEEDLE = "Nadelheim"


def _look_up() -> None:
    names: dict[str, int] = {}
    try:
        names[NEEDLE]
    except KeyError as error:
        raise ValueError(f"{NEEDLE} is not there") from error


def _fail() -> None:
    try:
        _look_up()
    except ValueError:
        raise CqrsError("the event cannot be read", "correct it")  # noqa: B904 - as where nobody thought of it


def failing() -> CqrsError:
    """Return an error of cqrs that was raised while another exception was handled."""
    with pytest.raises(CqrsError) as raised:
        _fail()
    return raised.value


def test_tracebacks_keep_places() -> None:
    traceback = redacted_traceback(failing())
    assert NEEDLE in traceback_text(failing()) and NEEDLE not in traceback
    lines = [line for line in traceback.splitlines() if line and not line.startswith(" ")]
    assert [line for line in lines if not line.startswith("Traceback")] == [
        "KeyError",
        "ValueError",
        "CqrsError: the event cannot be read",
    ]
    assert traceback.count("test_tracebacks.py") == 5


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_value_in_what_is_shown(output: str, capfd: pytest.CaptureFixture[str]) -> None:
    printer = Printer("json" if output == "json" else "text")
    printer.has_personal_data = True
    printer.print_error(failing(), failing())
    assert printer.error_text(KeyError(NEEDLE)) == "KeyError"
    assert printer.error_text(FileNotFoundError(2, "no such file", "cqrs.toml")).endswith("'cqrs.toml'")
    shown = capfd.readouterr().err
    assert "test_tracebacks.py" in shown and NEEDLE not in shown
    if output == "json":
        assert json.loads(shown)["error"]["message"] == "the event cannot be read"


def test_words_are_shown_elsewhere() -> None:
    assert Printer().error_text(KeyError(NEEDLE)) == f"KeyError: '{NEEDLE}'"
