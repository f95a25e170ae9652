"""`cqrs erase`: erase the personal fields of an aggregate, in its state and in all of its events."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import DryRun, argument, complete_aggregate, duration_option, option
from cqrs_cli.cli.output import printable
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError

if TYPE_CHECKING:
    from msgspec import UnsetType

    from cqrs_cli.client.erasures import ErasureFile
    from cqrs_cli.client.queries.personal import PersonalRecordCounts
    from cqrs_cli.core.aggregate.aggregate import Aggregate


@command(app, examples=["cqrs erase customer c-42 --dry-run", "cqrs erase --file erasures.ndjson"])
def erase(
    cli: Cli,
    aggregate: Annotated[
        str | None, argument("AGGREGATE", "The aggregate's name.", complete=complete_aggregate)
    ] = None,
    id: Annotated[str | None, argument("ID", "The aggregate's id.")] = None,
    wait: Annotated[bool, option("--wait/--no-wait", "Wait for the outcome, and print it.")] = True,
    is_dry_run: DryRun = False,
    erasures: Annotated[
        Path | None,
        option(
            "--erasures FILE",
            "File to which the erasure is appended.",
            show_default="erasures.ndjson in the project's folder",
        ),
    ] = None,
    file: Annotated[
        str | None, option("--file FILE", "Repeat the erasures of this file; - is stdin.")
    ] = None,
    timeout: Annotated[str, option("TIME", "Maximum wait for the next outcome.")] = "30s",
) -> None:
    """Erase the personal fields of an aggregate by deleting its data key.

    On a terminal it asks for a confirmation. The aggregate remains, with redacted values. Events that were written
    before a field was personal stay in plain text; the command counts them.

    It appends the erasure to the file of --erasures. After a restore from a backup, repeat the erasures with --file
    before readers start. docs/personal.md lists where personal data is stored.
    """
    timeout_seconds = duration_option("--timeout", timeout).total_seconds() if wait else None
    if file is not None:
        if aggregate is not None or id is not None or is_dry_run or erasures is not None:
            raise UsageError(
                "--file names the erasures to repeat", "leave out the options of a single erasure"
            )
        return _repeat_erasures(cli, file, timeout_seconds)
    if aggregate is None or id is None:
        raise UsageError("AGGREGATE and ID are needed, or --file", "see cqrs erase --help")
    from cqrs_cli.client.erasures import ERASURES, ErasureFile, require_personal

    loaded_aggregate = cli.aggregate(aggregate)
    require_personal(loaded_aggregate)
    if is_dry_run:
        return _print_dry_run(cli, loaded_aggregate, id)
    if not cli.confirm(f"erase the personal fields of {aggregate} {printable(id)}? This cannot be undone."):
        raise CqrsError("not confirmed, nothing was erased")
    erasure_file = ErasureFile(cli.settings.root / ERASURES if erasures is None else erasures)
    if timeout_seconds is None:
        return _erase(cli, loaded_aggregate, id, erasure_file)
    return _erase_and_wait(cli, loaded_aggregate, id, erasure_file, timeout_seconds)


def _print_dry_run(cli: Cli, aggregate: "Aggregate", id: str) -> None:
    from cqrs_cli.cli.render.erase import personal_records_result

    cli.print_result(
        *personal_records_result(aggregate.name, id, _count_personal_records(cli, aggregate, id))
    )
    cli.print_note("dry run: nothing was erased")


def _erase(cli: Cli, aggregate: "Aggregate", id: str, erasure_file: "ErasureFile") -> None:
    from cqrs_cli.cli.commands.send import send_one_composed
    from cqrs_cli.client.erasures import Erasure, erase_command

    command = erase_command(aggregate.name, id)
    erasure_file.append(Erasure.now(command, _current_key_id(cli, aggregate, id)))
    send_one_composed(cli, command)


def _erase_and_wait(
    cli: Cli, aggregate: "Aggregate", id: str, erasure_file: "ErasureFile", timeout_seconds: float
) -> None:
    """Append the erasure to the file, then erase.

    If the deleted data key is not the key that was appended, append a second line with the deleted key.
    """
    from cqrs_cli.cli.commands.send import send_one_and_print_outcome
    from cqrs_cli.cli.render.erase import plain_text_warning
    from cqrs_cli.client.erasures import Erasure, erase_command

    command = erase_command(aggregate.name, id)
    key = _current_key_id(cli, aggregate, id)
    erasure_file.append(Erasure.now(command, key))
    send_one_and_print_outcome(cli, command, timeout_seconds)
    try:
        records = _count_personal_records(cli, aggregate, id)
    except CqrsError as error:  # a user who may send commands is not always permitted to read events
        cli.print_note(f"its events were not read: {error.message}", "warning")
        return
    if (erased_key := records.erased_keys.get(command.id)) != key:
        erasure_file.append(Erasure.now(command, erased_key))
    if records.unencrypted:
        cli.print_note(plain_text_warning(records.unencrypted), "warning")


def _current_key_id(cli: Cli, aggregate: "Aggregate", id: str) -> "str | UnsetType":
    """Return the id of the aggregate's data key for the file of erasures.

    Return `UNSET` (the key is unknown) if the key cannot be read. If the aggregate has no key, return `UNSET`, too:
    commands that were sent earlier, but are not decided yet, may still create a key.
    """
    from msgspec import UNSET

    from cqrs_cli.client.queries.personal import current_key_id

    try:
        topics, partitioner = cli.topics(aggregate.name), cli.settings.partitioner
        return current_key_id(cli.connection(), topics, aggregate, id, partitioner) or UNSET
    except ConfigurationError as error:
        cli.print_note(f"its data key was not read: {error.message}", "warning")
        return UNSET


def _count_personal_records(cli: Cli, aggregate: "Aggregate", id: str) -> "PersonalRecordCounts":
    from cqrs_cli.client.queries.personal import personal_records

    connection, topics = cli.connection(), cli.topics(aggregate.name)
    with cli.show_spinner("reading its records"):
        return personal_records(connection, topics, aggregate, id, cli.settings.partitioner)


def _repeat_erasures(cli: Cli, file: str, timeout_seconds: float | None) -> None:
    from cqrs_cli.cli.commands.send_file import send_commands
    from cqrs_cli.client.erasures import repeated_erasures, require_personal
    from cqrs_cli.client.send import open_lines

    with open_lines(file) as lines:
        commands = repeated_erasures(lines)
    aggregate_names = {erasure.aggregate for erasure in commands}
    for name in sorted(aggregate_names):
        require_personal(cli.aggregate(name))
    send_commands(cli, commands, aggregate_names, timeout_seconds)
