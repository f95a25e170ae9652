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

#: The function of a command. It takes a `Cli` and the command's own parameters, and returns the exit status; None is 0.
Function = TypeVar("Function", bound=Callable[..., int | None])


def command(
    app: typer.Typer, name: str | None = None, *, examples: Sequence[str], extras: Sequence[str] = ()
) -> Callable[[Function], Function]:
    """Register a function as a command of `app` and give it the common options.

    The function is returned unchanged, so that tests can call it. Its docstring is the help, which ends with the
    examples; each example is a whole command line that begins with `cqrs`. If the type of a parameter is a dataclass,
    each of its fields is an option, so that commands can share options. `extras`: the extras that the command needs; if
    one is not installed, the command exits with an error that names the `pip install` for it.
    """

    def register(function: Function) -> Function:
        command_name = name or function.__name__.replace("_", "-")
        panel = PANELS.get(command_name) if app is root else None  # `cqrs keys status` is not `cqrs status`
        help_text = _unwrap(function.__doc__)
        registrar = app.command(
            command_name, cls=PlainCommand, help=help_text, epilog=_epilog(examples), rich_help_panel=panel
        )
        registrar(_typer_function(function, extras))
        return function

    return register


def _epilog(examples: Sequence[str]) -> str:
    """Return the examples as an epilog."""
    return "\n".join(["Examples:", *map(_escape_brackets, examples)])


def _escape_brackets(text: str) -> str:
    """Return the text with each square bracket escaped once: Typer would remove `[text]` as markup."""
    return re.sub(r"(?<!\\)\[", r"\\[", text)


def _unwrap(docstring: str | None) -> str:
    """Return the text with each paragraph on one line: Typer wraps lines, but keeps the line ends that it finds."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in (docstring or "").split("\n\n")]
    return _escape_brackets("\n\n".join(paragraphs))


def _typer_function(function: Callable[..., int | None], extras: Sequence[str]) -> Callable[..., Call]:
    """Return the function that Typer calls: it takes the command's own and the common options, and returns a `Call`.

    A parameter whose type is a dataclass is replaced by the fields of the dataclass. A parameter with the name of a
    common option replaces the common option.
    """
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
    group_classes: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }
    option_groups = {
        name: list(inspect.signature(group).parameters.values()) for name, group in group_classes.items()
    }

    def make_call(
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
        for name, fields in option_groups.items():
            values = {field.name: arguments.pop(field.name) for field in fields}
            arguments[name] = group_classes[name](**values)
        if "output" in own_names:  # the command has more formats than text and json
            arguments["output"] = output
            output = "json" if output == "json" else "text"
        flags = {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "properties": properties or None,
            "topic_prefix": topic_prefix,
        }
        return Call(Cli(flags, output=output, quiet=quiet, verbose=verbose), function, arguments, extras)

    own_names = {parameter.name for parameter in parameters}
    common_parameters = [
        parameter
        for parameter in inspect.signature(make_call).parameters.values()
        if parameter.name not in {"arguments", *own_names}
    ]
    own_parameters = [
        field for parameter in parameters for field in option_groups.get(parameter.name, [parameter])
    ]
    all_parameters = [_keyword_only(parameter) for parameter in [*own_parameters, *common_parameters]]
    make_call.__signature__ = inspect.Signature(all_parameters)  # type: ignore[attr-defined]
    make_call.__annotations__ = {parameter.name: parameter.annotation for parameter in all_parameters}
    return make_call


def _keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter as keyword-only, with escaped square brackets in its help."""
    for option in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(option, ParameterInfo):
            option.help = _escape_brackets(option.help or "")
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
