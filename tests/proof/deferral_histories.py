"""Histories with deferred commands, simulated and verified."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.verification_checkpoint import CheckpointUnusableError
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.memory import MemoryStore
from tests.core.deferral.world import END, TOPIC, World, steps
from tests.proof.incremental import IN_MEMORY, LOGS, Topics, VerifyRange, verify_piece
from tests.proof.violations import command_of_event, command_of_outcome


def scope_of(world: World) -> Scope:
    starts: dict[LogName, int] = {"events": 0, "outcomes": 0, "dead-letters": 0}
    tolerance = world.rules.limits.clock_tolerance
    return Scope("way", "", 0, starts, 24 * 3600 * 1000, topic_id=TOPIC, clock_tolerance=tolerance)


def violations_in(world: World, deleted: int = 0) -> list[str]:
    """Return the violations in a history without an active owner. The first `deleted` commands were deleted."""
    scope = scope_of(world)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        indexes = []
        for name in "oel":
            (folder / name).mkdir()
            indexes.append(stack.enter_context(closing(EntryIndex(folder / name))))
        proof = PartitionVerification(
            scope, Scratch(indexes[0], indexes[1], indexes[2], MemoryStore(24 * 3600 * 1000))
        )
        proof.outcomes.read(log_records(world.outcomes))
        proof.events.read(log_records(world.events))
        letters = enumerate(world.letters)
        proof.dead_letters.read(
            Record(offset, timestamp, b"a", value, list(headers))
            for offset, (value, timestamp, headers) in letters
        )
        topic = [(offset, *entry) for offset, entry in enumerate(world.topic) if entry is not None]
        proof.deferred.read(Record(offset, 0, key.encode(), value) for offset, key, value in topic)
        decided = proof.find_decided_range(world.position, world.position, deleted)
        commands = [world.record(offset) for offset in range(len(world.commands))]
        proof.check_commands(iter(commands[deleted : world.position]), decided)
        proof.check_deferred_topic(commands[world.position :])
        return [f"{violation.log} {violation.problem}" for violation in proof.report().violations]


def violations_in_pieces(world: World, planned: World, cut: int) -> list[str]:
    """Return the violations of a verify that continues at command `cut` from the checkpoint of an earlier verify.

    `planned` is the world without the fault, which defines the lengths of the logs at the time of the earlier verify.
    """
    scope = scope_of(world)
    letters = [
        Record(offset, timestamp, b"a", value, list(headers))
        for offset, (value, timestamp, headers) in enumerate(world.letters)
    ]
    commands = [world.record(offset) for offset in range(len(world.commands))]
    topics = Topics(commands, log_records(world.outcomes), log_records(world.events), letters)
    deferred = [
        Record(offset, 0, entry[0].encode(), entry[1])
        for offset, entry in enumerate(world.topic)
        if entry is not None
    ]
    ends: dict[LogName, int] = {
        "outcomes": sum(command_of_outcome(record) < cut for record in log_records(planned.outcomes)),
        "events": sum(command_of_event(record) < cut for record in log_records(planned.events)),
        "dead-letters": len(letters),
    }
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        first, second = Path(folder) / "1", Path(folder) / "2"
        verify_piece(scope, topics, VerifyRange(cut, cut, ends), None, first)
        whole_range = VerifyRange(world.position, world.position, dict.fromkeys(LOGS, 10**6))
        topics = topics._replace(deferred=deferred)
        try:
            report = verify_piece(scope, topics, whole_range, first, second)
        except CheckpointUnusableError:
            report = verify_piece(scope, topics, whole_range, None, second)
    return [f"{violation.log} {violation.problem}" for violation in report.violations]


def log_records(values: tuple[tuple[bytes, int], ...]) -> list[Record]:
    """Return a log of a world."""
    return [
        Record(offset, timestamp, b"a", value, [*HEADERS]) for offset, (value, timestamp) in enumerate(values)
    ]


def simulate(*sends: str, until: int = END) -> World:
    """Return a correct history: clients send first, then all commands are decided, then time passes."""
    return simulate_from(World(sends, ()), until)


def simulate_from(world: World, until: int = END) -> World:
    """Return the final world of a simulation from `world`."""
    while True:
        next_worlds = [next_world for next_world in steps(world) if next_world.now <= until]
        without_delay = [next_world for next_world in next_worlds if next_world.now == world.now]
        if not next_worlds:
            return world
        world = without_delay[-1] if without_delay else next_worlds[0]


WAITING = simulate("x", until=1)


DECIDED = simulate("x")


def simulate_until(*sends: str, condition: Callable[[World], bool]) -> World:
    """Return a history without a fault, up to the first world that fulfils `condition`."""
    world = World(sends, ())
    while not condition(world):
        next_worlds = list(steps(world))
        world = next(
            (next_world for next_world in reversed(next_worlds) if next_world.now == world.now),
            next_worlds[0],
        )
    return world


RESUBMITTED = simulate_until(
    "x", condition=lambda next_world: len(next_world.commands) == 2 and not next_world.sends
)
DEFERRED_BY_DECIDE = simulate("late", until=0)
DEFERRED_TWICE = simulate("late", until=2)
CANCELLING = simulate_until("x", "cancel", condition=lambda next_world: len(next_world.outcomes) == 2)
