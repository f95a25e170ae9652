"""`When this event, then these commands`, as one expression that explains itself when it fails."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.values import command_decoder
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.react import heard_events, reaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.testing.round_trip import BrokenLaw


def process(process: Process) -> "ProcessSpec":
    """A specification of a process. Raises `TypeError` if its annotations are wrong."""
    return ProcessSpec(process, tuple(heard_events(process)))


@dataclass(frozen=True)
class ProcessSpec:
    """A process, and the events that it hears."""

    process: Process
    heard: tuple[type[Event], ...]

    def when(
        self,
        event: Event,
        *,
        aggregate_id: str = "id-1",
        version: int = 1,
        time: datetime = datetime(2000, 1, 1, tzinfo=UTC),
    ) -> "Reaction":
        """React to an event of this aggregate. Raises `TypeError` for one that the process does not hear, `BrokenLaw`
        for a command that does not survive the wire, or if another call gives other commands.
        """
        __tracebackhide__ = True
        if type(event) not in self.heard:
            known = ", ".join(kind.__name__ for kind in self.heard)
            raise TypeError(f"{event!r} is not heard by this process: react takes {known}")
        at = Recorded(event, aggregate_id, version, time, "0/0/0", "command-1", "command-1", 0, 0, "")
        sent = reaction(self.process, at)
        for one in sent:
            _read_back(self.process, one)
        if reaction(self.process, at) != sent:
            raise BrokenLaw("react gives other commands when it is called again", of=self.process.react)
        return Reaction(event, sent)


@dataclass(frozen=True)
class Reaction:
    """The commands that an event led to."""

    event: Event
    sent: tuple[Send, ...]

    def sends(self, *expected: Send) -> "Reaction":
        """Exactly these commands, in this order; none if none is given."""
        __tracebackhide__ = True
        if self.sent != expected:
            wanted = [repr(one) for one in expected] or ["no command"]
            found = [repr(one) for one in self.sent] or ["no command"]
            lines = [f"when:\n  {self.event!r}"]
            for title, said in (("expected", wanted), ("found", found)):
                lines.append(f"{title}:\n  " + "\n  ".join(said))
            raise AssertionError("\n".join(lines))
        return self


def _read_back(process: Process, send: Send) -> None:
    __tracebackhide__ = True
    kind = type(send.command)
    try:
        back = command_decoder(kind)(encode_json(send.command))
    except (ValueError, TypeError) as error:
        raise BrokenLaw(
            f"{kind.__name__} does not survive the wire: {error}", repr(send), of=process.react
        ) from error
    if back != send.command:
        raise BrokenLaw(
            f"{kind.__name__} does not survive the wire: it is read back as another one",
            repr(send),
            repr(back),
            of=process.react,
        )
