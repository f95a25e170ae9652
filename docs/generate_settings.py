"""Writes `docs/settings.md` from `Settings` itself.

`tests/settings/test_settings.py` fails when the file is out of date.

python docs/generate_settings.py
"""

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import ByteSize

from cqrs_cli.cli.app import app
from cqrs_cli.cli.main import load_commands
from cqrs_cli.settings.durations import show_duration
from cqrs_cli.settings.settings import Settings
from cqrs_cli.settings.sources import ENV_PREFIX, FLAGS

TARGET = Path(__file__).with_name("settings.md")

#: Flags that are called like a setting and are none: they are of one aggregate, whatever is set.
OTHERS = {("repartition", "--partitions"), ("rebuild", "--partitions")}

INTRODUCTION = """\
# Settings

Written by `python docs/generate_settings.py`; do not edit.

A setting comes from the first of these that has it: its flag, its environment variable, `cqrs.toml`, `[tool.cqrs]` in
`pyproject.toml`, its default. The files are in the project's root, the nearest folder upwards that has one of
them, else the current folder. In a file `dedup-window` is `dedup_window`; a name that is not a setting is an error,
and so is a value that does not fit. An empty variable counts as not set. Client properties are merged one by one; the
others override `command_config`. Relative paths start from the file that has them, in flags and variables from the
current folder. `cqrs doctor` shows each setting in force and where it came from.

A duration is a number with its unit, or several: `500ms`, `30s`, `15m`, `24h`, `7d`, `2w`, `1h30m`. Bytes may
have a unit: `256MiB`, `1GB`. `partitions` and the retentions count when topics are made: retentions of topics that
exist are changed with Kafka's own tools, the number of partitions by `cqrs repartition`.
"""

ENDING = """\
Two variables are not settings: `CQRS_CACHE_DIR` is where the embedded Kafka is kept, for all projects of a user, and
`CQRS_MAVEN_MIRROR` names a Maven repository (`https:`, `http:` or `file:`) for its download, instead of Maven Central.
"""


def reference() -> str:
    """The whole document."""
    rows = ["| setting | type | default | flag | variable | |", "|---|---|---|---|---|---|"]
    flags = spelled_flags()
    for name, field in Settings.model_fields.items():
        if name != "root":
            cells = (
                f"`{name}`",
                kind(field.annotation),
                default(name, field.default),
                flags.get(name, ""),
                f"`{ENV_PREFIX}{name.upper()}`",
                described(name, field.description or ""),
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([INTRODUCTION, *rows, "", ENDING])


def kind(annotation: Any) -> str:
    """The type of a setting, as people call it."""
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    words = {
        dict: "table",
        ByteSize: "bytes",
        int: "number",
        Path: "path",
        str: "text",
        timedelta: "duration",
    }
    found = next(word for held, word in words.items() if held in flat(annotation))
    unlimited = found == "duration" and type(None) in get_args(annotation)
    return "duration or `unlimited`" if unlimited else found


def flat(annotation: Any) -> set[Any]:
    """A type and all that it is made of."""
    return {annotation, get_origin(annotation)}.union(*(flat(part) for part in get_args(annotation)))


def default(name: str, value: Any) -> str:
    if isinstance(value, timedelta) or name.endswith("_retention"):
        return f"`{show_duration(value)}`"
    if isinstance(value, ByteSize):
        return f"`{value.human_readable().replace('.0', '')}`"
    return f"`{value}`" if value else ""


def described(name: str, text: str) -> str:
    return f"{text} The variable: one `key=value` a line." if name == "properties" else text


def spelled_flags() -> dict[str, str]:
    """Each setting's flag, and the commands that have it if not all do."""
    load_commands()
    root: Any = typer.main.get_command(app)
    commands = {name: command for name, command in root.commands.items() if not hasattr(command, "commands")}
    found: dict[str, list[str]] = {}
    for name, command in sorted(commands.items()):  # they come in the order in which they were imported
        for option in (option for param in command.params for option in param.opts):
            if (name, option) not in OTHERS:
                found.setdefault(option, []).append(f"`{name}`")
    flags = {}
    for name in Settings.model_fields:
        option = FLAGS.get(name, f"--{name.replace('_', '-')}").rpartition("/")[2]
        if option in found:
            users = "" if len(found[option]) == len(commands) else f" of {', '.join(found[option])}"
            flags[name] = f"`{FLAGS.get(name, option).replace('/', '`, `')}`{users}"
    return flags


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
