"""`cqrs send --file`: send the commands of a file, or decide them on this machine with --dry-run."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import UsageError

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import ReadyCommand
    from cqrs_cli.client.producer import CommandProducer
    from cqrs_cli.kafka.connection.connection import Connection
    from cqrs_cli.kafka.topics.topics import Topics


def dry_run_file(cli: Cli, file: str) -> None:
    """Decide the commands of a file on this machine. All lines are read before the first command is decided."""
    from cqrs_cli.cli.render.queries.dry_run import dry_run
    from cqrs_cli.client.send import open_lines, read_lines

    with open_lines(file) as lines:
        dry_run(cli, list(read_lines(lines, cli.usable_aggregates(None))), ids_may_repeat=True)


def send_file(cli: Cli, file: str, timeout: float | None) -> None:
    """Send the commands of a file, `-` for stdin, and print how many were sent.

    With a `timeout` in seconds, wait for the outcomes, and print each outcome.
    """
    from cqrs_cli.client.send import open_lines, read_lines

    aggregates = cli.usable_aggregates(None)
    with open_lines(file) as lines:
        send_commands(cli, read_lines(lines, aggregates), aggregates, timeout)


def send_commands(
    cli: Cli, commands: "Iterable[ReadyCommand]", names: "Iterable[str]", timeout: float | None
) -> None:
    """Send commands to the aggregates with these names; otherwise like `send_file`."""
    from cqrs_cli.client.producer import CommandProducer

    topics, connection = {name: cli.topics(name) for name in names}, cli.connection()
    with CommandProducer(
        connection, cli.settings.partitioner, bulk=True, reports=timeout is not None
    ) as producer:
        if timeout is None:
            _send_all(cli, producer, topics, commands)
        else:
            _send_all_and_wait(cli, connection, producer, topics, commands, timeout)


def _send_all(
    cli: Cli, producer: "CommandProducer", topics: "Mapping[str, Topics]", commands: "Iterable[ReadyCommand]"
) -> None:
    from cqrs_cli.cli.render.send import bulk_sent_result
    from cqrs_cli.client.send import send_all

    with cli.show_spinner("sending") as show_text:
        sent_commands = send_all(
            producer, topics, commands, lambda count: show_text(f"sent {count:,} commands")
        )
    cli.print_result(*bulk_sent_result(sent_commands))


def _send_all_and_wait(
    cli: Cli,
    connection: "Connection",
    producer: "CommandProducer",
    topics: "Mapping[str, Topics]",
    commands: "Iterable[ReadyCommand]",
    timeout: float,
) -> None:
    from cqrs_cli.cli.render.send import OutcomePrinter
    from cqrs_cli.client.outcomes import OutcomeWaiter
    from cqrs_cli.client.send import send_and_wait

    with OutcomeWaiter(connection, producer, lambda: printer.report_ownerless(connection)) as waiter:
        printer = OutcomePrinter(cli, waiter, timeout)
        try:
            with printer.report_outstanding():
                for outcomes in send_and_wait(producer, waiter, topics, commands, timeout):
                    printer.print(outcomes)
        except UsageError as line_error:
            raise printer.with_outstanding(line_error) from None
        printer.raise_for_outcomes()
