"""`cqrs dead-letters`: look at the commands that failed, send them again, or let go of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import subgroup
from cqrs_cli.cli.command import command
from cqrs_cli.cli.command_filter import CommandFilter
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, DryRun, moment, option
from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand

    Keep = Callable[[FailedCommand], bool]

_BEFORE = option("--before TIME", "Only dead letters before this time: 30d ago, or a time.")


@dataclass(frozen=True)
class LetterFilter(CommandFilter):
    """The dead letters that are meant; without an option all of them."""

    reasons: Annotated[list[str] | None, option("--reason REASON", "Only for this reason; repeatable.")] = (
        None
    )
    since: Annotated[
        str | None, option("--since TIME", "Only dead letters since this time: 2h ago, or a time.")
    ] = None
    before: Annotated[str | None, _BEFORE] = None
    unsettled: Annotated[
        bool, option("--open", "Only the last of each command that was not decided since.")
    ] = False

    def keep(self, aggregate: str) -> "Keep":
        """True for a letter that is meant, but for `since` and `unsettled`, which tell where and what to read."""
        from cqrs_cli.core.messages.reasons import Reason

        failing = [reason.name for reason in Reason if reason.status == "failed"]
        for name in self.reasons or ():
            if name not in failing:
                raise UsageError(
                    f"--reason: no command fails for {name!r}", f"there are: {', '.join(failing)}"
                )
        until = None if self.before is None else moment("--before", self.before)

        def keep(one: "FailedCommand") -> bool:
            subject, kind = (one.command.subject, one.command.type) if one.command else (None, None)
            return (
                self.means(aggregate, one.id, subject, kind)
                and (not self.reasons or one.reason in self.reasons)
                and (until is None or one.record.timestamp < until)
            )

        return keep


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
    wanted: LetterFilter,
    full: Annotated[bool, option("--full", "Print each record as it was sent, too.")] = False,
) -> None:
    """List failed commands, by time.

    A dead letter remains after its command was retried. --open reads the outcomes, too, and leaves out dead letters
    whose command was decided since.
    """
    _print(cli, _letters(cli, aggregate, wanted), bool(wanted), full)


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
    wanted: LetterFilter,
    everything: Annotated[bool, option("--all", "Retry all commands, without a filter.")] = False,
    rehearse: DryRun = False,
) -> None:
    """Send failed commands again, to be decided now.

    A command keeps its id. Within the dedup window a repeated retry is a duplicate, so each command is decided once.
    The attribute notbefore is removed. A record that is not a readable command is not sent. The dead letter remains.
    """
    if not (wanted or everything):
        raise UsageError("retry what?", "narrow it down (cqrs dead-letters retry --help), or --all")
    found = _letters(cli, aggregate, wanted)
    if rehearse:
        _rehearse(cli, found, bool(wanted), "retry")
    else:
        _retry(cli, aggregate, found)


@command(dead_letters, "drop", examples=["cqrs dead-letters drop bank_account --before 30d"])
def drop_letters(
    cli: Cli,
    aggregate: AggregateName,
    before: Annotated[str, _BEFORE],
    rehearse: DryRun = False,
) -> None:
    """Delete the oldest dead letters.

    Kafka deletes records only from the beginning of a partition, so --before is the only filter. `--before 0s`
    deletes all dead letters.
    """
    from cqrs_cli.client.queries.dead_letters import oldest_letters

    wanted = LetterFilter(before=before)
    found = oldest_letters(_letters(cli, aggregate, LetterFilter()), wanted.keep(aggregate))
    if rehearse:
        _rehearse(cli, found, bool(wanted), "drop")
    else:
        _drop(cli, aggregate, found)


def _letters(cli: Cli, aggregate: str, wanted: LetterFilter) -> "Iterator[FailedCommand]":
    """The dead letters that are meant, by time."""
    from cqrs_cli.client.queries.dead_letters import failed_commands, open_letters
    from cqrs_cli.kafka import tailing
    from cqrs_cli.kafka.tailing import Origin

    cli.check_aggregates(aggregate)
    keep = wanted.keep(aggregate)
    since = Origin("beginning") if wanted.since is None else Origin("time", moment("--since", wanted.since))
    connection, topics = cli.connection(), cli.topics(aggregate)
    bounds = tailing.tail_bounds(connection, topics.dead_letters, since, None, "none")

    def letters(wanted: "Keep") -> "Iterator[FailedCommand]":
        records = tailing.merge_by_time(connection, topics.dead_letters, bounds, lambda record: True)
        return failed_commands(records, wanted)

    if not wanted.unsettled:
        return letters(keep)
    is_open = open_letters(connection, topics, letters(keep))
    return letters(lambda one: keep(one) and is_open(one))


def _print(cli: Cli, found: "Iterator[FailedCommand]", narrowed: bool, full: bool = False) -> int:
    from cqrs_cli.cli.render.dead_letters import letter, whole_letter

    count = 0
    for count, one in enumerate(found, 1):  # noqa: B007
        cli.result(*(whole_letter if full else letter)(one))
    cli.flush()
    if not count:
        cli.note("no dead letter is like that" if narrowed else "there are no dead letters")
    return count


def _rehearse(cli: Cli, found: "Iterator[FailedCommand]", narrowed: bool, verb: str) -> None:
    if count := _print(cli, found, narrowed):
        cli.note(f"dry run: {counted(count, 'command')} to {verb}, nothing was changed")


def _retry(cli: Cli, aggregate: str, found: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.cli.render.send import all_sent
    from cqrs_cli.client.envelope import ReadyCommand
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.queries.dead_letters import retry_command
    from cqrs_cli.client.send import send_all

    unreadable = 0

    def commands() -> Iterator[ReadyCommand]:
        nonlocal unreadable
        for one in found:
            composed = retry_command(aggregate, one)
            if composed is None:
                unreadable += 1
            else:
                yield composed

    with CommandProducer(cli.connection(), cli.settings.partitioner, bulk=True) as producer:
        many = send_all(producer, {aggregate: cli.topics(aggregate)}, commands(), lambda count: None)
    if unreadable:
        cli.note(f"{counted(unreadable, 'record')} not sent: not a command that can be read", "warning")
    cli.result(*all_sent(many, unreadable=unreadable))


def _drop(cli: Cli, aggregate: str, found: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.kafka.admin.topics import Admin

    ends: dict[int, int] = {}
    count = 0
    for one in found:
        ends[one.partition] = one.offset + 1
        count += 1
    if ends:
        with Admin(cli.connection()) as admin:
            admin.delete_before(cli.topics(aggregate).dead_letters, ends)
    cli.result({"dropped": count}, f"dropped {counted(count, 'dead letter')}")
