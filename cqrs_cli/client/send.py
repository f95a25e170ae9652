"""Sending many commands, and saying exactly how many of them were sent when that ends early."""

from collections.abc import Callable, Collection, Iterable, Iterator

from cqrs_cli.client.compose import Composed, complete_line
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.errors import CqrsError, UsageError


def read_lines(lines: Iterable[bytes], known: Collection[str]) -> Iterator[Composed]:
    """The commands in lines of JSON, empty lines skipped, as far as all is well.

    Raises `UsageError` naming the line that is no command to one of the `known` aggregates.
    """
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            composed = complete_line(line)
        except ValueError as error:
            raise UsageError(f"line {number}: {error}") from None
        if composed.aggregate not in known:
            raise UsageError(f"line {number}: no aggregate {composed.aggregate!r}; known: {', '.join(known)}")
        yield composed


def send_all(commands: Iterable[Composed], sender: CommandProducer, send: Callable[[Composed], None]) -> None:
    """Send until the commands end, and wait until the log has them.

    Whatever ends it early is raised with how many commands were sent: those and no others, in the order given.
    """
    try:
        for composed in commands:
            send(composed)
        sender.flush()
    except UsageError as error:
        sender.flush()
        raise UsageError(error.message, f"{_sent(sender)} before it: mend it and send the rest") from None
    except CqrsError as error:
        sender.stop()
        raise type(error)(f"{error.message}; {_sent(sender)}", error.hint) from error
    except KeyboardInterrupt:
        sender.stop()
        raise


def _sent(sender: CommandProducer) -> str:
    count = sender.delivered
    return f"{count:,} command{' was' if count == 1 else 's were'} sent"
