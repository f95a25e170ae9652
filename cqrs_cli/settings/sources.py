"""The sources of settings: flags, environment and files. Values are read here, and validated by `settings`."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.settings.java_properties import is_property_name, is_secret, parse_properties

#: Setting → its flag as error messages show it, if this is not `--` and the setting's name with dashes.
FLAGS = {"properties": "-X", "bootstrap_server": "-b/--bootstrap-server"}
ENV_PREFIX = "CQRS_"
_NON_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")


class Source(NamedTuple):
    """The values of one source. Relative paths among them are relative to `folder`."""

    values: dict[str, Any]  # setting → value
    origin: Callable[[str], str]  # setting → its origin, for messages
    folder: Path
    error: type[UsageError] | type[ConfigurationError] = ConfigurationError


def flag_source(flags: Mapping[str, object], cwd: Path) -> Source:
    """Return the values of the command line; None means not given. Raises `UsageError` for a wrong or secret `-X`."""
    values = {name: value for name, value in flags.items() if value is not None and value != []}
    pairs = values.get("properties")
    if isinstance(pairs, (list, tuple)):
        values["properties"] = dict(_parse_pair(str(pair)) for pair in pairs)
    return Source(
        values, lambda name: f"flag {FLAGS.get(name, '--' + name.replace('_', '-'))}", cwd, UsageError
    )


def _parse_pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    name = name.strip()
    # The text after the name may be a secret, if the `=` was forgotten or mistyped: it is never shown.
    name_prefix = _NON_NAME_CHARACTER.split(name)[0]
    if is_secret(name):
        raise UsageError(
            f"-X {name_prefix}: a secret is not accepted on the command line",
            "put it into a file, and name the file with --command-config",
        )
    if not separator or not name or name_prefix != name:
        raise UsageError(f"-X {name_prefix}: this is not key=value", "write -X client.id=me")
    return name, value.strip()


def environment_source(names: Iterable[str], cwd: Path) -> Source:
    """Return the values of the `CQRS_<NAME>` variables. An empty variable counts as unset. `CQRS_PROPERTIES` contains
    one key=value in each line.
    """
    variables = {name.upper(): value for name, value in os.environ.items()}
    values: dict[str, Any] = {
        name: value for name in names if (value := variables.get(f"{ENV_PREFIX}{name.upper()}"))
    }
    if "properties" in values:
        try:
            values["properties"] = parse_properties(values["properties"])
        except ValueError as error:
            raise ConfigurationError(
                f"{ENV_PREFIX}PROPERTIES: {error}", "write one key=value in each line"
            ) from None
    return Source(values, lambda name: f"environment {ENV_PREFIX}{name.upper()}", cwd)


def project_sources(cwd: Path) -> tuple[Path, list[Source]]:
    """Return the project's root and its files as sources. The root is the nearest folder with cqrs.toml or [tool.cqrs];
    without such a folder it is `cwd`.
    """
    for folder in (cwd, *cwd.parents):
        sources = [
            source
            for name in ("cqrs.toml", "pyproject.toml")
            if (source := _file_source(folder / name)) is not None
        ]
        if sources:
            return folder, sources
    return cwd, []


def _unreadable_error(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be read: {error.strerror}", "run it as a user who may read the project's folder"
    )


def _file_source(path: Path) -> Source | None:
    try:
        if not path.is_file():
            return None
    except OSError as error:
        raise _unreadable_error(path, error) from None
    is_own_file = path.name == "cqrs.toml"
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if not is_own_file:
            return None  # an invalid pyproject.toml may belong to a project without cqrs
        if isinstance(error, OSError):
            raise _unreadable_error(path, error) from None
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigurationError(f"{path} cannot be read: {reason}", "correct the file") from None
    if not is_own_file:
        tool = table.get("tool")
        table = tool.get("cqrs") if isinstance(tool, dict) else None
    if table is None:
        return None
    location = str(path) if is_own_file else f"{path} [tool.cqrs]"
    if not isinstance(table, dict):
        raise ConfigurationError(f"{location} is not a table", "write [tool.cqrs] and settings below it")
    return Source(_dashes_to_underscores(table), lambda _: location, path.parent)


def command_config(path: Path) -> dict[str, str]:
    """Return the client properties in a file for Java clients; raises `ConfigurationError`, which quotes no value."""
    try:
        properties = parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}", "check --command-config"
        ) from None
    except ValueError as error:
        # A decoding error would quote the bytes around it, which may be a password.
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ConfigurationError(
            f"{path} is not a properties file: {reason}", "write one key=value in each line"
        ) from None
    for number, name in enumerate(properties, 1):
        if not is_property_name(name):
            raise ConfigurationError(
                f"{path}: the name of entry {number} is not a name of a client property",
                "end each line of a value but the last with a backslash",
            )
    return properties


def resolve_store(folder: Path, value: str) -> str:
    """Return the address of a store: a path is resolved against `folder`; a URI or an empty value stays unchanged."""
    return str(resolve_path(folder, value)) if value and "://" not in value else value


def resolve_path(folder: Path, value: str | Path) -> Path:
    """Return `value` resolved against `folder`; raises `ValueError` for an invalid path."""
    if "\0" in str(value):
        raise ValueError("a path cannot contain a NUL character")
    try:
        return folder / Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"no such home folder: {value}") from None


def _dashes_to_underscores(table: dict[str, Any]) -> dict[str, Any]:
    """Return the settings by name. In TOML they may be spelled like flags: `dedup-window` for `dedup_window`."""
    return {name.replace("-", "_"): value for name, value in table.items()}
