"""`cqrs dead-letters`: list, retry or drop failed commands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.command_filter import CommandFilter
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, option, time_option
from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand

    LetterPredicate = Callable[[FailedCommand], bool]

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

    def predicate(self, aggregate: str) -> "LetterPredicate":
        """Return a function that is True for a selected dead letter. It ignores `since`: the reading starts there."""
        from cqrs_cli.core.messages.reasons import Reason

        failing_reasons = [reason.name for reason in Reason if reason.status == "failed"]
        for name in self.reasons or ():
            if name not in failing_reasons:
                raise UsageError(
                    f"--reason: no command fails for the reason {name!r}",
                    f"known reasons: {', '.join(failing_reasons)}",
                )
        until_ms = None if self.before is None else time_option("--before", self.before)

        def is_selected(failed_command: "FailedCommand") -> bool:
            command = failed_command.command
            subject, message_type = (command.subject, command.type) if command else (None, None)
            return (
                self.matches(aggregate, failed_command.id, subject, message_type)
                and (not self.reasons or failed_command.reason in self.reasons)
                and (until_ms is None or failed_command.record.timestamp < until_ms)
            )

        return is_selected


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
    undecided: Annotated[
        bool, option("--open", "Only the last dead letter of each command without a later decision.")
    ] = False,
    full: Annotated[bool, option("--full", "Print each record as it was sent, too.")] = False,
) -> None:
    """List failed commands, by time.

    A dead letter remains after its command was retried. --open reads the outcomes, too, and leaves out dead letters
    whose command was decided since.
    """
    _print_letters(
        cli, _selected_letters(cli, aggregate, selection, undecided), bool(selection) or undecided, full
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
    """Send failed commands again, to be decided now.

    Each command is sent once, with its id, unless it was decided since (as list --open). Within the dedup window a
    repeated retry is a duplicate, so each command is decided once. The attribute notbefore is removed. A record that is
    not a readable command is not sent. The dead letter remains.
    """
    if not (selection or select_all):
        raise UsageError(
            "no dead letters are selected", "give a filter (cqrs dead-letters retry --help), or --all"
        )
    letters = _selected_letters(cli, aggregate, selection, undecided=True)
    if is_dry_run:
        _print_dry_run(cli, _retryable_letters(aggregate, letters), bool(selection), "retry")
    else:
        _retry(cli, aggregate, letters)


@command(dead_letters, "drop", examples=["cqrs dead-letters drop bank_account --before 30d"])
def drop_letters(
    cli: Cli, aggregate: AggregateName, before: Annotated[str, _BEFORE], is_dry_run: DryRun = False
) -> None:
    """Delete the oldest dead letters.

    Kafka deletes records only from the beginning of a partition, so --before is the only filter. `--before 0s`
    deletes all dead letters.
    """
    from cqrs_cli.client.queries.dead_letters import oldest_letters

    selection = LetterFilter(before=before)
    letters = oldest_letters(
        _selected_letters(cli, aggregate, LetterFilter()), selection.predicate(aggregate)
    )
    if is_dry_run:
        _print_dry_run(cli, letters, bool(selection), "drop")
    else:
        _drop(cli, aggregate, letters)


def _selected_letters(
    cli: Cli, aggregate: str, selection: LetterFilter, undecided: bool = False
) -> "Iterator[FailedCommand]":
    """Yield the selected dead letters, by time.

    `undecided`: only the last dead letter of each command that was not decided since.
    """
    from cqrs_cli.client.queries.dead_letters import failed_commands, open_letters
    from cqrs_cli.kafka import tailing
    from cqrs_cli.kafka.tailing import Origin

    cli.check_aggregates(aggregate)
    is_selected = selection.predicate(aggregate)
    origin = Origin("beginning")
    if selection.since is not None:
        origin = Origin("time", time_option("--since", selection.since))
    connection, topics = cli.connection(), cli.topics(aggregate)
    bounds = tailing.tail_bounds(connection, topics.dead_letters, origin, None, "none")

    def read_letters(predicate: "LetterPredicate") -> "Iterator[FailedCommand]":
        records = tailing.merge_by_time(connection, topics.dead_letters, bounds, lambda record: True)
        return failed_commands(records, predicate)

    if not undecided:
        return read_letters(is_selected)
    is_open = open_letters(connection, topics, read_letters(lambda failed_command: True))
    return read_letters(lambda failed_command: is_selected(failed_command) and is_open(failed_command))


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
    from cqrs_cli.client.envelope import ReadyCommand
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.queries.dead_letters import retry_command
    from cqrs_cli.client.send import send_all

    unreadable_count = 0

    def commands() -> Iterator[ReadyCommand]:
        nonlocal unreadable_count
        for failed_command in letters:
            command = retry_command(aggregate, failed_command)
            if command is None:
                unreadable_count += 1
            else:
                yield command

    with CommandProducer(cli.connection(), cli.settings.partitioner, bulk=True) as producer:
        sent_commands = send_all(producer, {aggregate: cli.topics(aggregate)}, commands(), lambda count: None)
    if unreadable_count:
        cli.print_note(
            f"{counted(unreadable_count, 'record')} not sent: not readable as a command", "warning"
        )
    cli.print_result(*bulk_sent_result(sent_commands, unreadable=unreadable_count))


def _drop(cli: Cli, aggregate: str, letters: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.kafka.admin.topics import Admin

    ends: dict[int, int] = {}
    count = 0
    for failed_command in letters:
        ends[failed_command.partition] = failed_command.offset + 1
        count += 1
    if ends:
        with Admin(cli.connection()) as admin:
            admin.delete_before(cli.topics(aggregate).dead_letters, ends)
    cli.print_result({"dropped": count}, f"dropped {counted(count, 'dead letter')}")
