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

On this page you find every setting, its default and its sources. `python docs/generate_settings.py` writes the page.

The value of a setting comes from the first of these sources that has it: flag, environment variable, `cqrs.toml`,
`[tool.cqrs]` in `pyproject.toml`, default. The files are in the project's root: the current folder, or the nearest
folder above it that has one of the files. Files may spell `dedup_window` as `dedup-window`. An unknown name or an
invalid value is an error. An empty variable counts as not set. A relative path in a file starts from the file's folder;
in a flag or variable it starts from the current folder. `cqrs doctor` shows the value and the source of each setting.

A duration is one or more numbers, each with its unit: `500ms`, `30s`, `15m`, `24h`, `7d`, `2w`, `1h30m`. Bytes may have
a unit: `256MiB`, `1GB`. `partitions` and the retentions apply only to new topics. Change the retention of an existing
topic with Kafka's own tools, and the number of partitions with `cqrs repartition`.
"""

ENDING = """\
Two variables are not settings. `CQRS_CACHE_DIR` is the folder for the embedded Kafka and the archives of `cqrs warm`,
for all projects of a user. `CQRS_MAVEN_MIRROR` names a Maven repository (`https:`, `http:` or `file:`) from which Kafka
is downloaded instead of Maven Central.
"""


def reference() -> str:
    """The whole document."""
    rows = ["| setting | type | default | flag | variable | meaning |", "|---|---|---|---|---|---|"]
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
        bool: "`true`, `false`",
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
