"""`cqrs send --dry-run`: decides commands in this process, and sends nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.core.messages.event import read_event

if TYPE_CHECKING:
    from cqrs_cli.client.envelope import ReadyCommand
    from cqrs_cli.client.queries.simulation import SimulatedOutcome


def dry_run(cli: Cli, commands: Sequence["ReadyCommand"], ids_may_repeat: bool) -> None:
    """Print the outcome that each command would have now. Raises `RefusedError` if a command would be rejected or fail.

    `ids_may_repeat`: False if cqrs chose all ids, so that no earlier command can have such an id.
    """
    from cqrs_cli.cli.render.send import rejection_error
    from cqrs_cli.client.outcomes import is_failure
    from cqrs_cli.client.queries.simulation import Simulation
    from cqrs_cli.kafka.topics.decision_rules import DecisionSettings

    connection = cli.connection()
    simulations: dict[str, Simulation] = {}
    with cli.show_spinner("reading events"):
        for name in dict.fromkeys(command.aggregate for command in commands):
            aggregate_commands = [command for command in commands if command.aggregate == name]
            simulations[name] = Simulation(
                connection,
                cli.topics(name),
                cli.aggregate(name),
                DecisionSettings.of(cli.settings),
                aggregate_commands,
                ids_may_repeat,
            )
    failures = []
    for command in commands:
        simulated = simulations[command.aggregate].decide(command)
        cli.print_result(*simulated_result(simulated))
        if is_failure(simulated.envelope):
            failures.append(simulated.envelope)
    cli.flush()
    for name, simulation in simulations.items():
        simulation.close()
        if simulation.undecided:
            cli.print_note(
                f"{name}: the dry run ignores the undecided commands in the topic, at most {simulation.undecided:,}"
            )
    cli.print_note("dry run: nothing was sent")
    if failures:
        raise rejection_error(failures, len(commands))


def simulated_result(simulated: "SimulatedOutcome") -> Result:
    """Return the result of a command in a dry run: its outcome as `--wait` prints it, then its events."""
    from cqrs_cli.cli.render.send import outcome_line

    events = [msgspec.Raw(value) for value in simulated.events]
    lines = [outcome_line(simulated.envelope)]
    for event in map(read_event, simulated.events):
        lines.append(printable(f"  v{event.aggregateversion}  {event.type}  {bytes(event.data).decode()}"))
    return Result({"outcome": msgspec.Raw(simulated.value), "events": events}, lines)
