import json
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cqrs_cli.cli.app import EPILOG, PANELS, app
from cqrs_cli.cli.context import Call
from cqrs_cli.cli.main import load_commands, parse
from cqrs_cli.cli.options import COMMON_PANEL
from cqrs_cli.version import __version__
from tests.cli.conftest import Cqrs
from tests.support import ROOT

GENERATOR = runpy.run_path(str(ROOT / "docs/generate_cli.py"))

load_commands()
ROOT_COMMAND: Any = typer.main.get_command(app)
COMMANDS: list[tuple[str, Any]] = list(GENERATOR["leaves"](ROOT_COMMAND, "cqrs"))
EXAMPLES = [(path, example) for path, command in COMMANDS for example in GENERATOR["examples"](command)]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_every_command_has_help_and_examples(path: str, command: Any) -> None:
    assert command.help.rstrip().endswith(".")
    assert GENERATOR["examples"](command)
    assert [param.name for param in command.params if not param.help] == []


def own_options(command: Any) -> list[str]:
    """The options of a command, without the common ones, which every command has."""
    return [
        param.name
        for param in command.params
        if param.param_type_name == "option" and param.rich_help_panel != COMMON_PANEL
    ]


def test_number_of_options_is_limited() -> None:
    """An option counts once for each command that has it."""
    assert len(COMMANDS) <= 38
    assert sum(len(own_options(command)) for _, command in COMMANDS) <= 150


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_help_is_short(path: str, command: Any) -> None:
    assert len(command.help.split()) <= 80
    assert len(GENERATOR["examples"](command)) in (1, 2)
    assert [param.name for param in command.params if not param.help.rstrip("\\]").endswith((".", ":"))] == []


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_every_example_calls_its_command(path: str, example: str) -> None:
    assert example.startswith(path)
    assert isinstance(parse(shlex.split(example)[1:]), Call)


def test_examples_of_the_root_are_calls() -> None:
    lines = [line.strip() for line in EPILOG.splitlines() if line.strip().startswith("cqrs ")]
    assert lines
    assert all(isinstance(parse(shlex.split(line)[1:]), Call) for line in lines)


def test_the_reference_is_up_to_date() -> None:
    text = GENERATOR["TARGET"].read_text(encoding="utf-8")
    assert text == GENERATOR["reference"](), "run: python docs/generate_cli.py"


def test_reference_names_the_choices() -> None:
    text = GENERATOR["reference"]()
    assert "`--from beginning|end`" in text and "`--reason NOT_YET|LATER`" in text


def test_every_command_has_a_panel() -> None:
    assert ROOT_COMMAND.list_commands(None) == list(PANELS)
    assert {name: command.rich_help_panel for name, command in ROOT_COMMAND.commands.items()} == PANELS


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["-h"], ["keys"], ["keys", "-h"], ["send", "-h"], ["verify", "-h"]]
)
def test_help_goes_to_stdout(cqrs: Cqrs, arguments: list[str]) -> None:
    result = cqrs(*arguments)
    assert (result.status, result.err) == (0, "")
    assert "Usage: cqrs" in result.out


@pytest.mark.parametrize("path", ["cqrs", "cqrs keys", *(path for path, _ in COMMANDS)])
def test_flags_are_shown_without_a_type(cqrs: Cqrs, path: str) -> None:
    output = cqrs(*path.split()[1:], "--help").out
    assert "--help" in output
    assert "bool" not in output


def test_help_keeps_its_square_brackets(cqrs: Cqrs) -> None:
    output = cqrs("send", "--help").out
    assert "customer[name]=Ada" in output
    assert "field[key]=text" in output


@pytest.mark.parametrize("path", ["cqrs", "cqrs keys", *(path for path, _ in COMMANDS)])
def test_every_command_prints_the_version(cqrs: Cqrs, path: str) -> None:
    assert cqrs(*path.split()[1:], "-V") == (0, f"cqrs {__version__}\n", "")


def loaded_modules(*arguments: str) -> set[str]:
    """Return the modules that a command line loads."""
    code = f"import sys; from cqrs_cli.cli.main import main; main({[*arguments]}); print(*sys.modules, file=sys.stderr)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(process.stderr.split())


@pytest.mark.program
def test_one_command_loads_no_other() -> None:
    modules = loaded_modules("send", "--help")
    assert {module for module in modules if module.startswith("cqrs_cli.cli.commands.")} == {
        "cqrs_cli.cli.commands.send"
    }


@pytest.mark.program
def test_order_of_commands_is_fixed() -> None:
    """The order does not depend on which command was loaded first."""
    code = "from cqrs_cli.cli.main import main; main(['verify', '--help']); main(['--help'])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    root_help = subprocess.run(
        [sys.executable, "-m", "cqrs_cli", "--help"], capture_output=True, text=True, check=True
    )
    assert process.stdout.endswith(root_help.stdout)


def test_required_options_are_in_the_usage(cqrs: Cqrs) -> None:
    assert "Usage: cqrs whatif [OPTIONS] --with MODULE {AGGREGATE}" in cqrs("whatif", "--help").out
    assert "Usage: cqrs send [OPTIONS] [AGGREGATE]" in cqrs("send", "--help").out


@pytest.mark.program
def test_markdown_can_be_imported_after_help() -> None:
    code = "from cqrs_cli.cli.main import main; main(['--help']); import rich.markdown as m; m.Markdown('*a*').parsed"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.program
@pytest.mark.parametrize("arguments", [["--help"], ["send", "--help"], ["verify", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    heavy = {
        "msgspec",
        "markdown_it",
        "pygments",
        "asyncio",
        "http",
        "pydantic",
        "confluent_kafka",
        "kafka",
        "lmdb",
        "pyspark",
        "numpy",
        "pandas",
        "pyarrow",
        "prometheus_client",
    }
    typer_modules = (
        set() if arguments == ["--help"] else {"pydantic"}
    )  # Typer uses it to read the options of a command
    assert (heavy - typer_modules) & loaded_modules(*arguments) == set()


def completions(command_line: str, folder: Path) -> str:
    """Return the completions that bash would offer for the last word."""
    typed_words = command_line.split(" ")
    environment = {
        "COMP_WORDS": command_line,
        "COMP_CWORD": str(len(typed_words) - 1),
        "_CQRS_COMPLETE": "complete_bash",
    }
    process = subprocess.run(
        [sys.executable, "-m", "cqrs_cli"],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout


@pytest.mark.program
@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        ("cqrs sho", "show"),
        ("cqrs show bank", "bank_account"),
        ("cqrs send bank_account acc-42 With", "Withdraw"),
        ("cqrs tail bank_account ev", "events"),
        ("cqrs describe order LineA", "LineAdded"),
        ("cqrs verify bank", "bank_account"),
        ("cqrs certificate bank", "bank_account"),
    ],
)
def test_the_shell_completes(cqrs: Cqrs, tmp_path: Path, command_line: str, expected: str) -> None:
    assert completions(command_line, tmp_path).split() == expected.split()


def test_json_documents_are_one_line(cqrs: Cqrs) -> None:
    result = cqrs("kafka", "-o", "json")
    assert result.out.count("\n") == 1
    assert json.loads(result.out)["running"] is False
