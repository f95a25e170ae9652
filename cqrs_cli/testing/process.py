"""Specifications of process managers: when event, then commands, as one expression with a readable failure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import Struct

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.values import command_decoder
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.react import call_react, subscribed_events
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.core.subscription_rule import check_erasure
from cqrs_cli.testing.round_trip import BrokenLaw


def process(process: Process) -> "ProcessSpec":
    """Return a specification of a process manager.

    Raises `TypeError` if its annotations are wrong, or if it must also subscribe to `cqrs.Erased`.
    """
    event_types = tuple(subscribed_events(process))
    check_erasure(event_types)
    return ProcessSpec(process, event_types)


@dataclass(frozen=True)
class ProcessSpec:
    """A process manager and the event types of its subscription."""

    process: Process
    event_types: tuple[type[Event], ...]

    def when(
        self,
        event: Event,
        *,
        aggregate_id: str = "id-1",
        version: int = 1,
        time: datetime = datetime(2000, 1, 1, tzinfo=UTC),
    ) -> "Reaction":
        """React to an event of this aggregate.

        Raises `TypeError` for an event outside the subscription, `BrokenLaw` for a command that does not survive
        encoding, or if a second call returns other commands.
        """
        __tracebackhide__ = True
        if type(event) not in self.event_types:
            known_names = ", ".join(event_class.__name__ for event_class in self.event_types)
            raise TypeError(f"{event!r} is not an event of the subscription: react takes {known_names}")
        recorded_event = Recorded(
            event, aggregate_id, version, time, "0/0/0", "command-1", "command-1", 0, 0, ""
        )
        sent = call_react(self.process, recorded_event)
        for send in sent:
            if isinstance(send, Send):
                _check_round_trip(self.process, send)
        if call_react(self.process, recorded_event) != sent:
            raise BrokenLaw("react gives other commands when it is called again", function=self.process.react)
        return Reaction(event, sent)


@dataclass(frozen=True)
class Reaction:
    """The commands, or the public events, that the process manager sends for an event."""

    event: Event
    sent: tuple[Struct, ...]

    def sends(self, *expected: Struct) -> "Reaction":
        """Check that exactly these commands are sent, in this order; without arguments: that no command is sent."""
        __tracebackhide__ = True
        if self.sent != expected:
            expected_lines = [repr(send) for send in expected] or ["no command"]
            actual_lines = [repr(send) for send in self.sent] or ["no command"]
            lines = [f"when:\n  {self.event!r}"]
            for title, lines_of_title in (("expected", expected_lines), ("found", actual_lines)):
                lines.append(f"{title}:\n  " + "\n  ".join(lines_of_title))
            raise AssertionError("\n".join(lines))
        return self


def _check_round_trip(process: Process, send: Send) -> None:
    """Raise `BrokenLaw` if the command does not survive encoding."""
    __tracebackhide__ = True
    command_class = type(send.command)
    try:
        decoded = command_decoder(command_class)(encode_json(send.command))
    except (ValueError, TypeError) as error:
        raise BrokenLaw(
            f"{command_class.__name__} does not survive the wire: {error}", repr(send), function=process.react
        ) from error
    if decoded != send.command:
        raise BrokenLaw(
            f"{command_class.__name__} does not survive the wire: it is decoded to another value",
            repr(send),
            repr(decoded),
            function=process.react,
        )
