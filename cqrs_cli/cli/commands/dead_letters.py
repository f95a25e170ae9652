"""`cqrs dead-letters`: list, retry or drop failed commands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.attribution import attribution_of
from cqrs_cli.cli.command import command
from cqrs_cli.cli.command_filter import CommandFilter
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, option, time_option
from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand
    from cqrs_cli.client.queries.selections import LetterSelection

_BEFORE = option("--before TIME", "Only dead letters before this time: 30d ago, or a time.")


@dataclass(frozen=True)
class LetterFilter(CommandFilter):
    """The options that select dead letters. Without an option, all dead letters are selected."""

    reasons: Annotated[list[str] | None, option("--reason REASON", "Only for this reason; repeatable.")] = (
        None
    )
    since: Annotated[
        str | None, option("--since TIME", "Only dead letters since this time: 2h ago, or a time.")
    ] = None
    before: Annotated[str | None, _BEFORE] = None

    def selection(self) -> "LetterSelection":
        """Return the selection; raises `UsageError` for an unknown reason and an invalid time."""
        from cqrs_cli.client.queries.selections import LetterSelection, check_letter_reasons

        check_letter_reasons("--reason", self.reasons or ())
        return LetterSelection(
            self.id,
            self.aggregate_id,
            tuple(self.types or ()),
            tuple(self.reasons or ()),
            None if self.since is None else time_option("--since", self.since),
            None if self.before is None else time_option("--before", self.before),
        )


dead_letters = subgroup("dead-letters", "Failed commands: list, retry or drop them.")


@command(
    dead_letters,
    "list",
    examples=[
        "cqrs dead-letters list bank_account --open",
        "cqrs dead-letters list bank_account --id 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d --full",
    ],
)
def list_letters(
    cli: Cli,
    aggregate: AggregateName,
    selection: LetterFilter,
    only_open: Annotated[
        bool, option("--open", "Only commands that were not decided after their last dead letter.")
    ] = False,
    full: Annotated[bool, option("--full", "Also print each record as it was sent.")] = False,
) -> None:
    """List failed commands, by time.

    A dead letter remains after its command was retried. --open reads the outcomes, too, and omits each command that was
    decided after its dead letter.
    """
    _print_letters(
        cli, _selected_letters(cli, aggregate, selection, only_open), bool(selection) or only_open, full
    )


@command(
    dead_letters,
    "retry",
    examples=[
        "cqrs dead-letters retry bank_account --type Withdraw --dry-run",
        "cqrs dead-letters retry bank_account --all",
    ],
)
def retry_letters(
    cli: Cli,
    aggregate: AggregateName,
    selection: LetterFilter,
    select_all: Annotated[bool, option("--all", "Retry all commands, without a filter.")] = False,
    is_dry_run: DryRun = False,
) -> None:
    """Send failed commands again, so that they are decided now.

    It sends each command once, with its id and without notbefore. It omits commands that were decided since, as list
    --open does, and records that are not valid commands. If you repeat a retry within the dedup window, the commands
    are duplicates, so each command is decided once. The dead letter remains.
    """
    if not (selection or select_all):
        raise UsageError(
            "no dead letters are selected", "give a filter (cqrs dead-letters retry --help), or --all"
        )
    letters = _selected_letters(cli, aggregate, selection, only_open=True)
    if is_dry_run:
        _print_dry_run(cli, _retryable_letters(aggregate, letters), bool(selection), "retry")
    else:
        _retry(cli, aggregate, letters)


@command(dead_letters, "drop", examples=["cqrs dead-letters drop bank_account --before 30d"])
def drop_letters(
    cli: Cli, aggregate: AggregateName, before: Annotated[str, _BEFORE], is_dry_run: DryRun = False
) -> None:
    """Delete the oldest dead letters.

    Kafka deletes records only from the beginning of a partition, so --before is the only filter. `--before 0s` deletes
    all dead letters. The topic keeps a record of the deletion, which `cqrs trace` shows.
    """
    before_ms = time_option("--before", before)
    letters = _oldest_letters(cli, aggregate, before_ms)
    if is_dry_run:
        _print_dry_run(cli, letters, True, "drop")
    else:
        _drop(cli, aggregate, letters, before_ms)


def _selected_letters(
    cli: Cli, aggregate: str, selection: LetterFilter, only_open: bool = False
) -> "Iterator[FailedCommand]":
    """Yield the selected dead letters, by time.

    `only_open`: only the last dead letter of each command that was not decided since.
    """
    from cqrs_cli.client.queries.dead_letters import read_letters

    cli.check_aggregates(aggregate)
    letter_selection = selection.selection()
    return read_letters(
        cli.connection(),
        cli.topics(aggregate),
        lambda letter: letter_selection.selects_letter(aggregate, letter),
        letter_selection.since,
        only_open,
    )


def _oldest_letters(cli: Cli, aggregate: str, before: int) -> "Iterator[FailedCommand]":
    """Yield the dead letters to drop: in each partition, all letters up to the first letter since `before` (ms)."""
    from cqrs_cli.client.queries.dead_letters import oldest_letters

    return oldest_letters(
        _selected_letters(cli, aggregate, LetterFilter()), lambda letter: letter.record.timestamp < before
    )


def _print_letters(
    cli: Cli, letters: "Iterator[FailedCommand]", is_filtered: bool, full: bool = False
) -> int:
    from cqrs_cli.cli.render.dead_letters import dead_letter_result, full_dead_letter_result

    count = 0
    for count, failed_command in enumerate(letters, 1):  # noqa: B007
        cli.print_result(*(full_dead_letter_result if full else dead_letter_result)(failed_command))
    cli.flush()
    if not count:
        cli.print_note("no dead letter matches" if is_filtered else "there are no dead letters")
    return count


def _print_dry_run(cli: Cli, letters: "Iterator[FailedCommand]", is_filtered: bool, verb: str) -> None:
    if count := _print_letters(cli, letters, is_filtered):
        cli.print_note(f"dry run: {counted(count, 'command')} to {verb}, nothing was changed")


def _retryable_letters(aggregate: str, letters: "Iterator[FailedCommand]") -> "Iterator[FailedCommand]":
    """Yield the dead letters that a retry can send."""
    from cqrs_cli.client.queries.dead_letters import retry_command

    return (
        failed_command for failed_command in letters if retry_command(aggregate, failed_command) is not None
    )


def _retry(cli: Cli, aggregate: str, letters: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.cli.render.send import bulk_sent_result
    from cqrs_cli.client.queries.operations import retry_letters

    result = retry_letters(
        cli.connection(), cli.settings.partitioner, cli.topics(aggregate), letters, attribution_of("retry")
    )
    if result.unreadable:
        cli.print_note(
            f"{counted(result.unreadable, 'record')} not sent: not readable as a command", "warning"
        )
    cli.print_result(*bulk_sent_result(result.sent, unreadable=result.unreadable))


def _drop(cli: Cli, aggregate: str, letters: "Iterator[FailedCommand]", before: int) -> None:
    from cqrs_cli.client.queries.operations import drop_letters

    count = drop_letters(cli.connection(), cli.topics(aggregate), letters, before, attribution_of("drop"))
    cli.print_result({"dropped": count}, f"dropped {counted(count, 'dead letter')}")
