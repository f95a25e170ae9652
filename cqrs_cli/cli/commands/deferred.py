"""`cqrs deferred`: list, release or cancel deferred commands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.attribution import attribution_of
from cqrs_cli.cli.command import command
from cqrs_cli.cli.command_filter import CommandFilter
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, deadline_option, option
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from cqrs_cli.client.queries.operations import RequestType
    from cqrs_cli.client.queries.selections import DeferralSelection
    from cqrs_cli.core.deferral.entry import Deferral


@dataclass(frozen=True)
class DeferralFilter(CommandFilter):
    """The options that select deferred commands. Without an option, all deferred commands are selected."""

    reason: Annotated[
        Literal["NOT_YET", "LATER"] | None,
        option("--reason NOT_YET|LATER", "Only commands deferred for this reason."),
    ] = None
    before: Annotated[
        str | None, option("--before TIME", "Only commands due before this time: 1h from now, or a time.")
    ] = None

    def selection(self) -> "DeferralSelection":
        """Return the selection; raises `UsageError` for an invalid time."""
        from cqrs_cli.client.queries.selections import DeferralSelection

        before = None if self.before is None else deadline_option("--before", self.before)
        return DeferralSelection(self.id, self.aggregate_id, tuple(self.types or ()), self.reason, before)


deferred = subgroup("deferred", "Deferred commands: list, release or cancel them.")


@command(
    deferred,
    "list",
    examples=[
        "cqrs deferred list bank_account",
        "cqrs deferred list bank_account --aggregate-id acc-42 -o json",
    ],
)
def list_deferred(cli: Cli, aggregate: AggregateName, selection: DeferralFilter) -> None:
    """List deferred commands, the next due command first.

    A command is `parked` until it is due, then `released` until it is decided, or `cancelled`. Personal fields have
    redacted values.
    """
    _print_deferrals(cli, aggregate, _deferred_commands(cli, aggregate, selection), bool(selection))


SelectAll = Annotated[bool, option("--all", "All commands, without a filter.")]


@command(deferred, "release", examples=["cqrs deferred release bank_account --reason LATER --dry-run"])
def release_deferred(
    cli: Cli,
    aggregate: AggregateName,
    selection: DeferralFilter,
    select_all: SelectAll = False,
    is_dry_run: DryRun = False,
) -> None:
    """Release deferred commands, so that they are decided now.

    For each command it sends a request; when the owner reads the request, it releases the command.
    """
    _request_action(cli, aggregate, selection, select_all, is_dry_run, "release")


@command(
    deferred,
    "cancel",
    examples=[
        "cqrs deferred cancel bank_account --id 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d",
        "cqrs deferred cancel bank_account --all",
    ],
)
def cancel_deferred(
    cli: Cli,
    aggregate: AggregateName,
    selection: DeferralFilter,
    select_all: SelectAll = False,
    is_dry_run: DryRun = False,
) -> None:
    """Cancel deferred commands: each is rejected, with the reason CANCELLED.

    It sends a request for each command. If the command was decided before, the request is rejected, with the
    reason NOT_FOUND.
    """
    _request_action(cli, aggregate, selection, select_all, is_dry_run, "cancel")


def _deferred_commands(cli: Cli, aggregate: str, selection: DeferralFilter) -> "list[Deferral]":
    from cqrs_cli.client.queries.deferred import deferred_commands

    cli.check_aggregates(aggregate)
    deferral_selection = selection.selection()
    connection = cli.connection()
    with cli.show_spinner("reading"):
        return deferred_commands(
            connection,
            cli.topics(aggregate),
            cli.settings.partitioner,
            lambda entry: deferral_selection.selects_deferral(aggregate, entry),
        )


def _print_deferrals(cli: Cli, aggregate: str, deferrals: "list[Deferral]", is_filtered: bool) -> None:
    from cqrs_cli.cli.render.deferred import deferral_result

    redact = _redactor(cli, aggregate)
    for entry in deferrals:
        cli.print_result(*deferral_result(entry, redact))
    cli.flush()
    if not deferrals:
        cli.print_note("no deferred command matches" if is_filtered else "no command is deferred")


def _redactor(cli: Cli, aggregate: str) -> "Callable[[bytes], bytes]":
    """Return the function that replaces the personal fields of a command's data by redacted values."""
    from functools import partial

    from cqrs_cli.codec.encrypted_events import redact_command

    try:
        return partial(redact_command, cli.aggregate(aggregate))
    except ConfigurationError:  # without the aggregate's code the data is shown as stored: encrypted
        return bytes


def _request_action(
    cli: Cli,
    aggregate: str,
    selection: DeferralFilter,
    select_all: bool,
    is_dry_run: bool,
    verb: Literal["release", "cancel"],
) -> None:
    """Send the owner a request for each selected command, or list the commands in a dry run."""
    if not (selection or select_all):
        raise UsageError(
            "no deferred commands are selected", f"give a filter (cqrs deferred {verb} --help), or --all"
        )
    deferrals = _deferred_commands(cli, aggregate, selection)
    if selection.id is not None and not deferrals:
        raise CqrsError(
            f"no deferred command of {aggregate} with id {selection.id} matches",
            f"list the deferred commands: cqrs deferred list {aggregate}",
        )
    if not is_dry_run:
        _send_requests(cli, aggregate, deferrals, verb)
        return
    _print_deferrals(cli, aggregate, deferrals, bool(selection))
    if deferrals:
        cli.print_note(f"dry run: {counted(len(deferrals), 'command')} to {verb}, nothing was sent")


def _send_requests(
    cli: Cli, aggregate: str, deferrals: "list[Deferral]", verb: Literal["release", "cancel"]
) -> None:
    from cqrs_cli.cli.render.send import bulk_sent_result
    from cqrs_cli.client.queries.operations import send_requests

    request_type: RequestType = "cqrs.Cancel" if verb == "cancel" else "cqrs.Release"
    topics, attribution = cli.topics(aggregate), attribution_of(verb)
    sent_commands = send_requests(
        cli.connection(), cli.settings.partitioner, topics, deferrals, request_type, attribution
    )
    cli.print_result(*bulk_sent_result(sent_commands))
