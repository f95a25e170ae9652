"""The root of the command line: `cqrs` and its groups of commands."""

import sys
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from cqrs_cli.version import __version__

#: Command → its panel in `cqrs --help`, in the order of the help.
PANELS = {
    "new": "Begin",
    "add": "Begin",
    "demo": "Begin",
    "init": "Begin",
    "describe": "Work",
    "send": "Work",
    "run": "Work",
    "project": "Work",
    "serve": "Work",
    "show": "Look",
    "tail": "Look",
    "trace": "Look",
    "replay": "Look",
    "export": "Look",
    "whatif": "Look",
    "sql": "Look",
    "mcp": "Look",
    "deferred": "Operate",
    "dead-letters": "Operate",
    "payloads": "Operate",
    "erase": "Operate",
    "keys": "Operate",
    "check": "Operate",
    "verify": "Operate",
    "certificate": "Operate",
    "rebuild": "Operate",
    "repartition": "Operate",
    "status": "Operate",
    "top": "Operate",
    "doctor": "Operate",
    "warm": "Operate",
    "kafka": "Operate",
}

EPILOG = """Examples:
  cqrs demo
  cqrs send bank_account acc-42 Deposit amount:=100 --wait

Data goes to stdout, everything else to stderr; -o json makes it JSON. Exit codes: docs/cli.md"""


class PlainCommand(TyperCommand):
    """A command whose help shows a flag without Typer's `<bool>`, and whose usage line has the required options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        command_path, *pieces = super().collect_usage_pieces(ctx)
        required_options = [
            param for param in self.get_params(ctx) if param.param_type_name == "option" and param.required
        ]
        usages = (f"{param.opts[-1]} {param.metavar or ''}".rstrip() for param in required_options)
        return [command_path, *usages, *pieces]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_flag_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group whose help shows a flag without `<bool>`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_flag_types(super().get_params(ctx))


class RootGroup(PlainGroup):
    """The group `cqrs`. It lists its commands in the order of `PANELS`, not of their imports."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in PANELS if name in self.commands]


#: Modules that Typer imports to print help, but that the help of cqrs does not need: module → the name that Typer
#: imports from it. Without Markdown `cqrs --help` takes 20 % less time, without coloured tracebacks 14 % less.
_UNUSED_MODULES = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}


def _load_help() -> None:
    """Import Typer's help writer, with empty stand-ins for the modules in `_UNUSED_MODULES`."""
    if "typer.rich_utils" in sys.modules:
        return
    replaced_modules = [name for name in _UNUSED_MODULES if name not in sys.modules]
    for name in replaced_modules:
        module: Any = ModuleType(name)
        setattr(module, _UNUSED_MODULES[name], object)
        sys.modules[name] = module
    try:
        import typer.rich_utils  # noqa: F401
    finally:
        for name in replaced_modules:
            del sys.modules[name]


def _hide_flag_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _group(name: str, help: str, cls: type[PlainGroup] = PlainGroup) -> typer.Typer:
    """Return a new group of commands. Called without a command it prints its help and exits with 0."""
    group = typer.Typer(
        name=name,
        cls=cls,
        help=help,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    group.callback(invoke_without_command=True, rich_help_panel=PANELS.get(name))(_print_help_without_command)
    return group


def subgroup(name: str, help: str) -> typer.Typer:
    """Return a new group of commands below `cqrs`."""
    group = _group(name, help)
    app.add_typer(group)
    return group


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"cqrs {__version__}")
        raise typer.Exit


def version_option(panel: str | None = None) -> OptionInfo:
    """Return the option `-V`, for this panel of the help."""
    option: OptionInfo = typer.Option(
        "-V",
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version.",
        rich_help_panel=panel,
    )
    return option


def _print_help_without_command(
    ctx: typer.Context, version: Annotated[bool, version_option()] = False
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


app = _group("cqrs", "Commands decided exactly once, on Kafka and Spark.", RootGroup)
app.callback(invoke_without_command=True, epilog=EPILOG)(_print_help_without_command)
