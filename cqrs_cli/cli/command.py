"""Registers a function as a command, with the options that all commands share."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import typer
from typer.models import ParameterInfo

from cqrs_cli.cli.app import PANELS, PlainCommand
from cqrs_cli.cli.app import app as root
from cqrs_cli.cli.context import Call, Cli
from cqrs_cli.cli.options import (
    BootstrapServer,
    CommandConfig,
    OutputFormat,
    Properties,
    Quiet,
    TopicPrefix,
    Verbose,
    Version,
)

#: A command: its parameters are `Cli`, then the command's own; it returns the exit status, None for 0.
Function = TypeVar("Function", bound=Callable[..., int | None])


def command(
    app: typer.Typer, name: str | None = None, *, examples: Sequence[str], extras: Sequence[str] = ()
) -> Callable[[Function], Function]:
    """Register a function as a command of `app` and give it the common options.

    The function is returned unchanged, so that tests can call it. Its docstring is the help, which ends with the
    examples; each example is a whole command line that begins with `cqrs`. If the type of a parameter is a dataclass,
    each of its fields is an option, so that commands can share options. `extras`: the extras of the package without
    which the command ends with the line that installs them.
    """

    def register(function: Function) -> Function:
        spelled = name or function.__name__.replace("_", "-")
        panel = PANELS.get(spelled) if app is root else None  # `cqrs keys status` is not `cqrs status`
        described = _unwrapped(function.__doc__)
        listed = app.command(
            spelled, cls=PlainCommand, help=described, epilog=_epilog(examples), rich_help_panel=panel
        )
        listed(_typer_function(function, extras))
        return function

    return register


def _epilog(examples: Sequence[str]) -> str:
    """Return the examples as an epilog."""
    return "\n".join(["Examples:", *map(_escaped, examples)])


def _escaped(text: str) -> str:
    """Return the text with escaped square brackets, each escaped once: Typer would remove them as markup."""
    return re.sub(r"(?<!\\)\[", r"\\[", text)


def _unwrapped(docstring: str | None) -> str:
    """Return the text with each paragraph on one line: Typer wraps lines, but keeps the line ends that it finds."""
    return _escaped("\n\n".join(" ".join(part.split()) for part in (docstring or "").split("\n\n")))


def _typer_function(function: Callable[..., int | None], extras: Sequence[str]) -> Callable[..., Call]:
    """Return the function that Typer calls: its parameters are all options, its result is a `Call`."""
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
    types: dict[str, Any] = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}
    bundles = {name: list(inspect.signature(kind).parameters.values()) for name, kind in types.items()}

    def read(
        bootstrap_server: BootstrapServer = None,
        command_config: CommandConfig = None,
        properties: Properties = None,
        topic_prefix: TopicPrefix = None,
        output: OutputFormat = "text",
        quiet: Quiet = False,
        verbose: Verbose = False,
        version: Version = False,
        **arguments: Any,
    ) -> Call:
        for name, fields in bundles.items():
            made = {field.name: arguments.pop(field.name) for field in fields}
            arguments[name] = types[name](**made)
        flags = {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "properties": properties or None,
            "topic_prefix": topic_prefix,
        }
        return Call(Cli(flags, output=output, quiet=quiet, verbose=verbose), function, arguments, extras)

    common = list(inspect.signature(read).parameters.values())[:-1]
    own = [field for one in parameters for field in bundles.get(one.name, [one])]
    every = [_keyword_only(parameter) for parameter in [*own, *common]]
    read.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    read.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return read


def _keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter as keyword-only, with escaped square brackets in its help."""
    for option in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(option, ParameterInfo):
            option.help = _escaped(option.help or "")
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
