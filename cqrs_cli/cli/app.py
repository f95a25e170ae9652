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
    """A command whose help shows a flag without the `<bool>` that Typer puts behind it, and whose usage has the options
    that it must be given.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        first, *rest = super().collect_usage_pieces(ctx)
        needed = [one for one in self.get_params(ctx) if one.param_type_name == "option" and one.required]
        return [first, *(f"{one.opts[-1]} {one.metavar or ''}".rstrip() for one in needed), *rest]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group whose help shows a flag without `<bool>`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _load_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class RootGroup(PlainGroup):
    """`cqrs` itself: its commands are listed in the order of `PANELS`, whatever was loaded first."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in PANELS if name in self.commands]


class CallableGroup(PlainGroup):
    """A command that has commands of its own, as `cqrs verify [AGGREGATE]...` has `cqrs verify process NAME`.

    The first word decides: the name of a command calls that, anything else is an argument of the group's own call. So
    these names are reserved. Behind `--` they are arguments like others: `cqrs verify -- process`.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] in self.commands:
            super().parse_args(ctx, [])
            ctx._protected_args, ctx.args = args[:1], args[1:]  # as `TyperGroup.parse_args` leaves them
            return list(ctx.args)
        given = list(args)
        super().parse_args(ctx, args)
        if "--" not in given and not ctx.resilient_parsing:
            self._refuse_reserved(ctx)
        return []

    def _refuse_reserved(self, ctx: Any) -> None:
        """Refuse arguments that are called like a command: it may stand behind an option by mistake."""
        arguments = [param.name for param in self.params if param.param_type_name == "argument"]
        for word in (word for name in arguments for word in ctx.params.get(name) or ()):
            if word in self.commands:
                path = ctx.command_path
                ctx.fail(f"{word!r} is a command and comes first: {path} {word}; else write {path} -- {word}")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        *pieces, commands = super().collect_usage_pieces(ctx)
        return [*pieces, f"| {commands}"]


#: Modules that Typer imports for help and that we do not need. Skipping Markdown saves 20 % of `cqrs --help`, skipping
#: coloured tracebacks 14 %.
_UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}


def _load_help() -> None:
    """Load what writes the help, without what it does not use."""
    if "typer.rich_utils" in sys.modules:
        return
    absent = [name for name in _UNUSED if name not in sys.modules]
    for name in absent:
        module: Any = ModuleType(name)
        setattr(module, _UNUSED[name], object)
        sys.modules[name] = module
    try:
        import typer.rich_utils  # noqa: F401
    finally:
        for name in absent:
            del sys.modules[name]


def _plain(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def group(name: str, help: str, cls: type[PlainGroup] = PlainGroup) -> typer.Typer:
    """A new group of commands. Called without a command it prints its help and ends with 0."""
    made = typer.Typer(
        name=name,
        cls=cls,
        help=help,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True, rich_help_panel=PANELS.get(name))(_help_when_bare)
    return made


def subgroup(name: str, help: str, cls: type[PlainGroup] = PlainGroup) -> typer.Typer:
    """A new group of commands below `cqrs`."""
    made = group(name, help, cls)
    app.add_typer(made)
    return made


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cqrs {__version__}")
        raise typer.Exit


def version_option(panel: str | None = None) -> OptionInfo:
    """`-V`, shown in this panel of the help."""
    option: OptionInfo = typer.Option(
        "-V",
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version.",
        rich_help_panel=panel,
    )
    return option


def _help_when_bare(ctx: typer.Context, version: Annotated[bool, version_option()] = False) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


app = group("cqrs", "Commands decided exactly once, on Kafka and Spark.", RootGroup)
app.callback(invoke_without_command=True, epilog=EPILOG)(_help_when_bare)
