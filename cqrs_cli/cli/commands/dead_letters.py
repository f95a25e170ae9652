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
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand

    Keep = Callable[[FailedCommand], bool]

Before = Annotated[str | None, option("--before TIME", "Only those before this time: 30d, or a time.")]


@dataclass(frozen=True)
class LetterFilter(CommandFilter):
    """The dead letters that are meant; without an option all of them."""

    reasons: Annotated[list[str] | None, option("--reason REASON", "Only for this one; repeatable.")] = None
    since: Annotated[str | None, option("--since TIME", "Only those from this time on: 2h, or a time.")] = (
        None
    )
    before: Before = None
    unsettled: Annotated[
        bool, option("--open", "Only the last of each command, and none that was decided since.")
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


dead_letters = subgroup("dead-letters", "The commands that failed: look at them, send them again, drop them.")


@command(
    dead_letters,
    "list",
    examples=[
        "cqrs dead-letters list bank_account",
        "cqrs dead-letters list bank_account --reason HANDLER_ERROR --since 1d -o json",
        "cqrs dead-letters list bank_account --open",
    ],
)
def list_letters(cli: Cli, aggregate: AggregateName, wanted: LetterFilter) -> None:
    """List the commands that failed, by time.

    The dead letter of a command that was sent again stays: --open leaves out those whose command was decided since, for
    which it reads the outcomes.
    """
    _print(cli, _letters(cli, aggregate, wanted), bool(wanted))


@command(
    dead_letters,
    "show",
    examples=["cqrs dead-letters show bank_account --id 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d"],
)
def show_letters(cli: Cli, aggregate: AggregateName, wanted: LetterFilter) -> None:
    """Show the commands that failed, each with its record as it was sent."""
    _print(cli, _letters(cli, aggregate, wanted), bool(wanted), whole=True)


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
    everything: Annotated[bool, option("--all", "Without a filter: retry every one.")] = False,
    rehearse: DryRun = False,
) -> None:
    """Send the commands that failed again.

    A command keeps its id: it is decided once, however often that is repeated, for as long as its outcome is
    remembered. `notbefore` is left out: it is decided now. What is not a command that can be read is not sent. The dead
    letter stays.
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
    before: Before = None,
    everything: Annotated[bool, option("--all", "Drop every one.")] = False,
    rehearse: DryRun = False,
) -> None:
    """Drop the oldest dead letters.

    Kafka deletes records from a log's beginning alone, so there is no other filter than --before.
    """
    from cqrs_cli.client.queries.dead_letters import oldest_letters

    wanted = LetterFilter(before=before)
    if not (wanted or everything):
        raise UsageError("drop what?", "--before TIME, or --all")
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
    bounds = tailing.tail_bounds(connection, topics.dead_letters, since, None, "off")

    def letters(wanted: "Keep") -> "Iterator[FailedCommand]":
        records = tailing.merged(connection, topics.dead_letters, bounds, lambda record: True)
        return failed_commands(records, wanted)

    if not wanted.unsettled:
        return letters(keep)
    is_open = open_letters(connection, topics, letters(keep))
    return letters(lambda one: keep(one) and is_open(one))


def _print(cli: Cli, found: "Iterator[FailedCommand]", narrowed: bool, whole: bool = False) -> int:
    from cqrs_cli.cli.render.dead_letters import letter, whole_letter

    count = 0
    for count, one in enumerate(found, 1):  # noqa: B007
        cli.result(*(whole_letter if whole else letter)(one))
    cli.flush()
    if not count:
        cli.note("no dead letter is like that" if narrowed else "there are no dead letters")
    return count


def _rehearse(cli: Cli, found: "Iterator[FailedCommand]", narrowed: bool, verb: str) -> None:
    if count := _print(cli, found, narrowed):
        cli.note(f"dry run: {counted(count, 'command')} to {verb}, nothing was changed")


def _retry(cli: Cli, aggregate: str, found: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.cli.render.send import all_sent
    from cqrs_cli.client.envelope import Composed
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.client.queries.dead_letters import retried
    from cqrs_cli.client.send import send_all

    unreadable = 0

    def commands() -> Iterator[Composed]:
        nonlocal unreadable
        for one in found:
            composed = retried(aggregate, one)
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
