"""`cqrs dead-letters`: look at the commands that failed, send them again, or let go of them."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, OnlyAggregateId, OnlyCommandId, OnlyCommandTypes
from cqrs_cli.cli.output import printable
from cqrs_cli.errors import UsageError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand
    from cqrs_cli.kafka.connection.connection import Connection


@command(
    app,
    examples=[
        "cqrs dead-letters list bank_account",
        "cqrs dead-letters list bank_account --reason HANDLER_ERROR --since 1d -o json",
        "cqrs dead-letters list bank_account --open",
        "cqrs dead-letters show bank_account --id 0198f2c4-7c1e-7b8a-9d55-0d6f3a1b2c3d",
        "cqrs dead-letters retry bank_account --type Withdraw --dry-run",
        "cqrs dead-letters retry bank_account --all",
        "cqrs dead-letters drop bank_account --before 30d",
    ],
)
def dead_letters(
    cli: Cli,
    action: Annotated[
        Literal["list", "show", "retry", "drop"],
        typer.Argument(metavar="ACTION", help="list, show, retry or drop."),
    ],
    aggregate: AggregateName,
    id: OnlyCommandId = None,
    aggregate_id: OnlyAggregateId = None,
    types: OnlyCommandTypes = None,
    reasons: Annotated[
        list[str] | None, typer.Option("--reason", metavar="REASON", help="Only for this one; repeatable.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only those from this time on: 2h, or a time."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Only those before this time.")
    ] = None,
    unsettled: Annotated[
        bool, typer.Option("--open", help="Only the last of each command, and none that was decided since.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Retry or drop without a filter.")] = False,
    rehearse: Annotated[bool, typer.Option("--dry-run", help="List them, and change nothing.")] = False,
) -> None:
    """List the commands that failed, by time; show them whole; send them again; or drop the oldest.

    A retried command has its id: it is decided once, however often that is repeated, for as long as its outcome is
    remembered. `notbefore` is left out: it is decided now. What is not a command that can be read is not sent. The dead
    letter stays: --open leaves out those whose command was decided since, for which it reads the outcomes.

    Kafka deletes records from a log's beginning alone, so `drop` takes --before or --all, and no other filter.
    """
    from cqrs_cli.client.queries.dead_letters import failed_commands, open_letters
    from cqrs_cli.kafka import tailing

    if aggregate not in cli.aggregate_names():
        cli.aggregate(aggregate)  # says which there are
    narrowed = unsettled or any(one is not None for one in (id, aggregate_id, types, reasons, since))
    if action == "retry" and not (narrowed or before or everything):
        raise UsageError(
            "retry what?",
            "name it: --id, --aggregate-id, --type, --reason, --since, --before or --open; or --all",
        )
    if action == "drop" and (narrowed or not (before or everything)):
        raise UsageError("drop what?", "--before TIME, or --all, and no other filter")
    keep = _filter(aggregate, id, aggregate_id, types or [], reasons or [], before)
    connection, topics = cli.connection(), cli.topics(aggregate)
    topic = topics.dead_letters
    bounds = tailing.tail_bounds(connection, topic, _origin(since), None, "off")

    def letters(wanted: "Callable[[FailedCommand], bool]") -> "Iterator[FailedCommand]":
        return failed_commands(tailing.merged(connection, topic, bounds, lambda record: True), wanted)

    if unsettled:
        is_kept, is_open = keep, open_letters(connection, topics, letters(keep))
        found = letters(lambda one: is_kept(one) and is_open(one))
    else:
        found = letters((lambda one: True) if action == "drop" else keep)
    if action == "drop":
        found = _oldest(found, keep)
    if action == "retry" and not rehearse:
        _retry(cli, aggregate, found)
    elif action == "drop" and not rehearse:
        _drop(cli, connection, topic, found)
    else:
        count = _print(cli, found, whole=action == "show")
        if not count:
            cli.note("no dead letter is like that" if narrowed or before else "there are no dead letters")
        elif action in ("retry", "drop"):
            cli.note(f"dry run: {counted(count, 'command')} to {action}, nothing was changed")


def _print(cli: Cli, found: "Iterator[FailedCommand]", *, whole: bool) -> int:
    count = 0
    for one in found:
        if whole:
            cli.row(_whole(one), _whole_text(one))
        else:
            cli.row(letter_document(one), letter_line(one))
        count += 1
    cli.flush()
    return count


def _origin(since: str | None) -> Any:
    from cqrs_cli.kafka.tailing import Origin
    from cqrs_cli.settings.moments import parse_moment

    if since is None:
        return Origin("beginning")
    try:
        return Origin("time", parse_moment(since))
    except ValueError as error:
        raise UsageError(f"--since: {error}", "give a time, or how long ago") from None


def _filter(
    aggregate: str,
    id: str | None,
    aggregate_id: str | None,
    types: list[str],
    reasons: list[str],
    before: str | None,
) -> "Callable[[FailedCommand], bool]":
    from cqrs_cli.core.messages.reasons import Reason
    from cqrs_cli.settings.moments import parse_moment

    failing = [reason.name for reason in Reason if reason.status == "failed"]
    for name in reasons:
        if name not in failing:
            raise UsageError(f"--reason: no command fails for {name!r}", f"there are: {', '.join(failing)}")
    try:
        until = None if before is None else parse_moment(before)
    except ValueError as error:
        raise UsageError(f"--before: {error}", "give a time, or how long ago") from None
    wanted = {name if "." in name else f"{aggregate}.{name}" for name in types}

    def keep(one: "FailedCommand") -> bool:
        subject = None if one.command is None else one.command.subject
        kind = None if one.command is None else one.command.type
        return (
            (id is None or one.id == id)
            and (aggregate_id is None or subject == aggregate_id)
            and (not reasons or one.reason in reasons)
            and (not wanted or kind in wanted)
            and (until is None or one.record.timestamp < until)
        )

    return keep


def _retry(cli: Cli, aggregate: str, found: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.cli.render.send import all_sent_document, all_sent_text
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
        sent = send_all(producer, {aggregate: cli.topics(aggregate)}, commands(), lambda count: None)
    if unreadable:
        cli.note(f"{counted(unreadable, 'record')} not sent: not a command that can be read", "warning")
    cli.result({**all_sent_document(sent), "unreadable": unreadable}, all_sent_text(sent))


def _oldest(
    found: "Iterator[FailedCommand]", keep: "Callable[[FailedCommand], bool]"
) -> "Iterator[FailedCommand]":
    """Those of each partition that come before the first one which is not to be dropped."""
    ended: set[int] = set()
    for one in found:
        if one.partition not in ended and keep(one):
            yield one
        else:
            ended.add(one.partition)


def _drop(cli: Cli, connection: "Connection", topic: str, found: "Iterator[FailedCommand]") -> None:
    from cqrs_cli.kafka.admin.topics import Admin

    ends: dict[int, int] = {}
    count = 0
    for one in found:
        ends[one.partition] = one.offset + 1
        count += 1
    if ends:
        with Admin(connection) as admin:
            admin.delete_before(topic, ends)
    cli.result({"dropped": count}, f"dropped {counted(count, 'dead letter')}")


def letter_document(one: "FailedCommand") -> dict[str, Any]:
    """A dead letter as JSON."""
    return {
        "partition": one.partition,
        "offset": one.offset,
        "time": one.time,
        "reason": one.reason,
        "message": one.message,
        "command": one.place,
        "id": one.id or None,
        "aggregate_id": None if one.command is None else one.command.subject,
        "type": None if one.command is None else one.command.type,
    }


def letter_line(one: "FailedCommand") -> str:
    """A dead letter as one line of text."""
    told = "?" if one.command is None else f"{one.command.subject}  {one.command.type}  {one.command.id}"
    return printable(f"{one.time}  {one.partition}/{one.offset}  {told}  {one.reason}: {one.message}")


def _whole(one: "FailedCommand") -> dict[str, Any]:
    from cqrs_cli.cli.render.record import record_document

    return {**letter_document(one), "record": record_document(one.partition, one.record)}


def _whole_text(one: "FailedCommand") -> str:
    headers = [
        f"  {name}: {(content or b'').decode(errors='replace')}" for name, content in one.record.headers or ()
    ]
    value = (one.record.value or b"").decode(errors="backslashreplace")
    lines = [letter_line(one), f"  command: {one.place}", *headers, f"  {value}"]
    return "\n".join(map(printable, lines))
