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

On this page you find every command, option and exit code. `python docs/generate_cli.py` generates this page.

Data goes to stdout, everything else to stderr. An error is one line: `error: cause; what to do`. With `-o json` a
command prints one JSON document, or JSON Lines (`tail`, `sql`, `send --wait`, `run` without `--once`), and an error on
stderr is `{"error":{"code":…,"message":…,"hint":…}}`. [settings.md](settings.md) lists the settings. The end of this
page explains `AGGREGATE`, the [options of commands on Spark](#arguments-and-options-of-many-commands) and the
[options of every command](#options-of-every-command).
"""

#: Arguments and options with the same meaning in many commands. Only the end of the page explains them.
SHARED = ("AGGREGATE", "[AGGREGATE]...")
SPARK_OPTIONS = ("--master URL", "--conf K=V")

PICTURES = """\
`cqrs run` reports its progress. `cqrs top` shows all partitions. `cqrs trace` draws commands, outcomes and events:

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
    for path, command in commands:
        group = path.rpartition(" ")[0]
        members = [other for other in commands if group != "cqrs" and other[0].rpartition(" ")[0] == group]
        parts.append(section(path, command, members[0] if members else (path, command)))
    parts.append("## Arguments and options of many commands\n\n" + shared_parameters(commands))
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


def section(path: str, command: Any, first: tuple[str, Any]) -> str:
    """Return the description of a command. `first`: the first command of its group, whose options it may repeat."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option" and param.rich_help_panel != COMMON_PANEL and not param.hidden
    ]
    required = [spelled(option) for option in options if option.required]
    usage = [path, *(spelled(param) for param in arguments), *required, "[OPTIONS]"]
    arguments, options = (
        [param for param in params if spelled(param) not in (*SHARED, *SPARK_OPTIONS)]
        for params in (arguments, options)
    )
    parts = [f"## {path}\n", f"```\n{' '.join(usage)}\n```\n", f"{unescaped(command.help)}\n"]
    parts += [descriptions("Arguments", arguments)] if arguments else []
    name, repeated = first[0], [(spelled(param), param.help) for param in first[1].params]
    same = [param for param in options if name != path and (spelled(param), param.help) in repeated]
    if len(same) > 1:
        options = [param for param in options if param not in same]
        names = ", ".join(f"`{spelled(param)}`" for param in same)
        parts.append(f"Options as in [`{name}`](#{name.replace(' ', '-')}): {names}.\n")
    parts += [descriptions("Options", options)] if options else []
    parts.append("```console\n" + "\n".join(f"$ {example}" for example in examples(command)) + "\n```\n")
    return "\n".join(parts)


def shared_parameters(commands: list[tuple[str, Any]]) -> str:
    """Return the lists of the shared arguments, and of the options that the commands on Spark share."""
    params = {spelled(param): param for _, command in commands for param in command.params}
    on_spark = [
        f"`{path.removeprefix('cqrs ')}`"
        for path, command in commands
        if SPARK_OPTIONS[0] in map(spelled, command.params)
    ]
    shared, spark = ([params[name] for name in names] for names in (SHARED, SPARK_OPTIONS))
    return descriptions("Arguments", shared) + "\n" + descriptions(f"Options of {', '.join(on_spark)}", spark)


def descriptions(heading: str, params: list[Any]) -> str:
    """A list of arguments or options, below its heading."""
    items = [f"{heading}:\n"]
    for param in params:
        default = (
            f" Default: {param.opts[0] if param.default is True else param.default}."
            if isinstance(param.default, (str, int)) and param.default not in ("", False)
            else ""
        )
        items.append(f"- `{spelled(param)}`: {unescaped(param.help or '')}{default}")
    return "\n".join(items) + "\n"


def spelled(param: Any) -> str:
    """Return an argument or option as the user writes it."""
    if param.param_type_name == "argument":
        name = str(param.metavar or param.name.upper())
        return f"[{name}]..." if param.nargs != 1 else name if param.required else f"[{name}]"
    names = "|".join(sorted([*param.opts, *param.secondary_opts], key=len))
    return names if param.is_flag else f"{names} {param.metavar or 'N'}"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
