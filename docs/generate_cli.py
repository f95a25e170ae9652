"""Writes `docs/cli.md` from the command line itself. `tests/cli/test_help.py` fails when the file is not up to date.

python docs/generate_cli.py
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from cqrs_cli import errors
from cqrs_cli.cli.app import PANELS, app
from cqrs_cli.cli.main import load_commands
from cqrs_cli.cli.options import COMMON_PANEL

TARGET = Path(__file__).with_name("cli.md")

INTRODUCTION = """\
# The command line

Every command, option and exit code; `python docs/generate_cli.py` writes this page.

Data goes to stdout, everything else to stderr. With `-o json` a one-shot command prints one JSON document, a stream
(`tail`, `send --wait`) JSON Lines, and an error on stderr is `{"error":{"code":…,"message":…,"hint":…}}`. In text
mode an error is one line, `error: cause; what to do`. [settings.md](settings.md) lists the settings.
"""

PICTURES = """\
`cqrs run` reports progress, `cqrs top` watches all partitions, `cqrs trace` draws commands, outcomes and events:

![cqrs run at work](pictures/run.svg)

![cqrs top: a row for each partition, with rates, lag, ages and the owner](pictures/top.svg)

![cqrs trace: a tree of commands, outcomes and events](pictures/trace.svg)
"""


def reference() -> str:
    """The whole document."""
    load_commands()
    root = typer.main.get_command(app)
    commands = list(leaves(root, "cqrs"))
    parts = [INTRODUCTION, overview(commands), PICTURES]
    parts += [section(path, command) for path, command in commands]
    common = [param for param in commands[0][1].params if param.rich_help_panel == COMMON_PANEL]
    parts.append("## Options of every command\n\n" + descriptions("Options", common))
    parts.append(f"## Exit codes\n\n```\n{inspect.cleandoc(errors.__doc__ or '')}\n```\n")
    return "\n".join(parts)


def overview(commands: list[tuple[str, Any]]) -> str:
    """The commands of each panel of `cqrs --help`, as links."""
    panels: dict[str, list[str]] = {}
    for path, _ in commands:
        _, *words = path.split()
        panels.setdefault(PANELS[words[0]], []).append(f"[`{' '.join(words)}`](#{path.replace(' ', '-')})")
    return "\n".join(f"- {panel}: {', '.join(links)}" for panel, links in panels.items()) + "\n"


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that is not a group, with the words that call it."""
    members = getattr(command, "commands", None)
    if members is None:
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves(members[name], f"{path} {name}")


def examples(command: Any) -> list[str]:
    """The examples at the end of a command's help."""
    _, *lines = (command.epilog or "Examples:").splitlines()
    return [unescaped(line.strip()) for line in lines]


def unescaped(help: str) -> str:
    """A help text without the escapes that keep its square brackets from being markup."""
    return help.replace("\\[", "[")


def section(path: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option" and param.rich_help_panel != COMMON_PANEL and not param.hidden
    ]
    required = [spelled(option) for option in options if option.required]
    usage = [path, *(spelled(param) for param in arguments), *required, "[OPTIONS]"]
    parts = [f"## {path}\n", f"```\n{' '.join(usage)}\n```\n", f"{unescaped(command.help)}\n"]
    parts += [descriptions("Arguments", arguments)] if arguments else []
    parts += [descriptions("Options", options)] if options else []
    parts.append("```console\n" + "\n".join(f"$ {example}" for example in examples(command)) + "\n```\n")
    return "\n".join(parts)


def descriptions(heading: str, params: list[Any]) -> str:
    """A list of arguments or options, below its heading."""
    items = [f"{heading}:\n"]
    for param in params:
        default = (
            f" Default: {param.default}."
            if isinstance(param.default, (str, int)) and param.default not in ("", False)
            else ""
        )
        items.append(f"- `{spelled(param)}`: {unescaped(param.help or '')}{default}")
    return "\n".join(items) + "\n"


def spelled(param: Any) -> str:
    """An argument or option as one writes it."""
    if param.param_type_name == "argument":
        name = str(param.metavar or param.name.upper())
        return f"[{name}]..." if param.nargs != 1 else name if param.required else f"[{name}]"
    names = "|".join(sorted(param.opts, key=len))
    return names if param.is_flag else f"{names} {param.metavar or 'N'}"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
