"""A client's background thread: it reports unsent commands to the caller, and releases their memory."""

import gc
import weakref
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cqrs_cli.client.background_sender import BackgroundSender, UnsentCommands
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.errors import PayloadUnavailableError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.harness import TopicHarness

#: A connection to an address without a listener.
UNREACHABLE_BROKER = Connection("127.0.0.1:1")


def pending_outcome(number: int) -> PendingOutcome:
    command = ReadyCommand(f"c-{number}", "counter", "a", "counter.Count", b"{}")
    return PendingOutcome(command, Topics("counter"), 30.0)


def test_every_unsent_command_fails() -> None:
    """The commands are sent together, and the first finds that the broker is unreachable."""
    sender, outcomes = (
        BackgroundSender(UNREACHABLE_BROKER, "murmur2"),
        [pending_outcome(number) for number in range(9)],
    )
    for outcome in outcomes:
        sender.submit(outcome)
    assert sender.close() == UnsentCommands(9, "c-0")
    for outcome in outcomes:
        with pytest.raises(UnavailableError):
            outcome.wait(0.0)


def test_unsent_commands_are_released() -> None:
    sender, outcome = BackgroundSender(UNREACHABLE_BROKER, "murmur2"), pending_outcome(0)
    sender.submit(outcome)
    sender.close()
    reference = weakref.ref(outcome)
    del outcome
    gc.collect()
    assert reference() is None


class FailingProducer(CommandProducer):
    """A producer whose payload store does not answer."""

    def send(self, *_: Any, **__: Any) -> NoReturn:
        raise PayloadUnavailableError("away")


@pytest.mark.kafka
def test_unsent_commands_are_not_awaited(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """While the client waits for a command with an unknown offset, it keeps the outcomes of all other commands."""
    topics = TopicHarness(connection, prefix, tmp_path).topics
    with FailingProducer(connection, "murmur2") as producer, OutcomeWaiter(connection, producer) as waiter:
        with pytest.raises(PayloadUnavailableError):
            waiter.send(topics, b"a", b"{}", "c-1")
        assert waiter.outstanding == []
