"""`cqrs send --dry-run`: decides commands in this process, and sends nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import ReadyCommand
    from cqrs_cli.client.queries.simulation import SimulatedOutcome


def dry_run(cli: Cli, commands: Sequence["ReadyCommand"], ids_may_repeat: bool) -> None:
    """Print the outcome that each command would have now; raises `RefusedError` if one would be rejected or fail."""
    from cqrs_cli.cli.render.send import rejection_error
    from cqrs_cli.client.outcomes import is_failure
    from cqrs_cli.client.queries.simulation import Simulation
    from cqrs_cli.kafka.topics.decision_rules import DecisionSettings

    connection = cli.connection()
    rehearsals: dict[str, Simulation] = {}
    with cli.show_spinner("reading events"):
        for name in dict.fromkeys(composed.aggregate for composed in commands):
            mine = [composed for composed in commands if composed.aggregate == name]
            rehearsals[name] = Simulation(
                connection,
                cli.topics(name),
                cli.aggregate(name),
                DecisionSettings.of(cli.settings),
                mine,
                ids_may_repeat,
            )
    refused = []
    for composed in commands:
        rehearsed = rehearsals[composed.aggregate].decide(composed)
        cli.print_result(*simulated_result(rehearsed))
        if is_failure(rehearsed.read):
            refused.append(rehearsed.read)
    cli.flush()
    for name, rehearsal in rehearsals.items():
        rehearsal.close()
        if rehearsal.undecided:
            waiting = counted(rehearsal.undecided, "command")
            cli.print_note(
                f"{name}: up to {waiting} there not decided yet: what they change is not seen here"
            )
    cli.print_note("dry run: nothing was sent")
    if refused:
        raise rejection_error(refused, len(commands))


def simulated_result(rehearsed: "SimulatedOutcome") -> Result:
    """Return the result of a command in a dry run: its outcome as `--wait` prints it, then its events."""
    from cqrs_cli.cli.render.send import outcome_line

    events = [msgspec.Raw(value) for value in rehearsed.events]
    lines = [outcome_line(rehearsed.read)]
    for event in map(read_event, rehearsed.events):
        lines.append(printable(f"  v{event.aggregateversion}  {event.type}  {bytes(event.data).decode()}"))
    return Result({"outcome": msgspec.Raw(rehearsed.value), "events": events}, lines)
