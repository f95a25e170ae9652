"""The entry point `cqrs`: parses a command line, calls the command, and converts errors to exit codes."""

import importlib
import re
import signal
import sys
from collections.abc import Callable, Sequence

import typer

from cqrs_cli.cli.app import PANELS, app
from cqrs_cli.cli.context import Call
from cqrs_cli.cli.interrupts import TerminationSignal, raise_on_termination
from cqrs_cli.cli.output import Printer
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.extras import explain_import
from cqrs_cli.system.python import require_assertions, tolerate_warnings
from cqrs_cli.system.standard_streams import discard_stdout, prepare_streams
from cqrs_cli.system.tolerant_stderr import ignore_stderr_errors

#: `-o json` in all its spellings, also after other short flags: `-qojson`.
_JSON = re.compile(r"(?<!\S)(-[fhqvV]*o ?|--output[ =])json(?!\S)")

SIGNAL_STATUS = 128  # a process ended by signal n has exit status 128 + n, by convention of the shells


def main(
    arguments: Sequence[str] | None = None,
    parse_arguments: Callable[[Sequence[str]], Call | int] | None = None,
) -> int:
    """Run one command line, and return the exit status. Errors become exit codes only here.

    `parse_arguments` replaces `parse` in tests.
    """
    if arguments is None:
        prepare_streams()
        ignore_stderr_errors()
        tolerate_warnings()
        arguments = sys.argv[1:]
    output = Printer("json" if _wants_json(arguments) else "text")
    verbose = False
    try:
        with raise_on_termination():
            require_assertions()
            call = (parse_arguments or parse)(arguments)
            if isinstance(call, int):
                return call
            output, verbose = call.cli, call.cli.verbose
            status = call()
            output.flush()
            return status
    except (BrokenPipeError, SystemExit) as error:
        # The reader has closed the pipe: `cqrs tail … | head`. Rich converts the error to `SystemExit`.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        discard_stdout()
        return SIGNAL_STATUS + signal.SIGPIPE
    except TerminationSignal as termination:
        return SIGNAL_STATUS + termination.number
    except KeyboardInterrupt:
        return SIGNAL_STATUS + signal.SIGINT
    except CqrsError as error:
        output.print_error(error, error if verbose else None)
        return error.exit_code
    except Exception as error:
        extra_error = explain_import(error) if isinstance(error, ImportError) else None
        hint = "" if verbose else "-v shows the traceback"
        failure = extra_error or CqrsError(output.error_text(error), hint)
        output.print_error(failure, error if verbose else None)
        return failure.exit_code


def load_commands(arguments: Sequence[str] = ()) -> None:
    """Import the module of the command in these arguments; without a command, the modules of all commands. Each module
    registers its command on `app`.
    """
    command_name = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name in (command_name,) if command_name in PANELS else PANELS:
        importlib.import_module(f"cqrs_cli.cli.commands.{name.replace('-', '_')}")


def parse(arguments: Sequence[str]) -> Call | int:
    """Return the call that a command line asks for, or an exit status after help or version. Raises `UsageError`."""
    match list(arguments):
        case ["help", *command]:
            arguments = [*command, "--help"]
        case ["version"]:
            arguments = ["--version"]
    load_commands(arguments)
    root = typer.main.get_command(app)
    # `root.main` is not called: it would convert each signal to the exit code 130, and a closed pipe to 1.
    root._main_shell_completion({}, "cqrs")
    try:
        with root.make_context("cqrs", list(arguments)) as context:
            call = root.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.TyperException as error:
        raise _usage_error(error) from None
    return call if isinstance(call, Call) else int(call or 0)


def _usage_error(error: typer.TyperException) -> UsageError:
    """Convert Typer's `Missing argument 'ID'.` to the form `missing argument 'ID'; see cqrs send --help`."""
    text = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".")
    text, _, suggestion = text.partition(" Did you mean ")
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "cqrs"
    guess = f"did you mean {suggestion} " if suggestion else ""
    return UsageError(text[:1].lower() + text[1:].rstrip("."), f"{guess}see {path} --help")


def _wants_json(arguments: Sequence[str]) -> bool:
    """True if the command line asks for JSON. Found without the parser, because the parser's errors are JSON, too."""
    return _JSON.search(" ".join(arguments)) is not None


if __name__ == "__main__":
    sys.exit(main())
