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
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.trace_index import TraceIndex
from tests.core.deferral.world import END, TOPIC, World, steps
from tests.proof.incremental import IN_MEMORY, LOGS, Look, Topics, prove_piece
from tests.proof.violations import event_of, outcome_of


def scope_of(world: World) -> Scope:
    starts: dict[LogName, int] = {"events": 0, "outcomes": 0, "dead-letters": 0}
    early = world.rules.limits.clock_tolerance
    return Scope("way", "", 0, starts, 24 * 3600 * 1000, topic_id=TOPIC, max_earliness=early)


def proved(world: World, deleted: int = 0) -> list[str]:
    """Return the violations in a history without an active owner. `deleted` commands are gone by retention."""
    scope = scope_of(world)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        indexes = []
        for name in "oel":
            (folder / name).mkdir()
            indexes.append(stack.enter_context(closing(TraceIndex(folder / name))))
        proof = PartitionVerification(
            scope, Scratch(indexes[0], indexes[1], indexes[2], MemoryStore(24 * 3600 * 1000))
        )
        proof.outcomes.read(records(world.outcomes))
        proof.events.read(records(world.events))
        letters = enumerate(world.letters)
        proof.dead_letters.read(
            Record(at, t, b"a", value, list(headers)) for at, (value, t, headers) in letters
        )
        topic = [(at, *one) for at, one in enumerate(world.topic) if one is not None]
        proof.deferred.read(Record(at, 0, key.encode(), value) for at, key, value in topic)
        decided = proof.decided_range(world.position, world.position, deleted)
        commands = [world.record(offset) for offset in range(len(world.commands))]
        proof.check_commands(iter(commands[deleted : world.position]), decided)
        proof.check_deferred_topic(commands[world.position :])
        return [f"{one.log} {one.problem}" for one in proof.report().violations]


def proved_in_pieces(world: World, planned: World, cut: int) -> list[str]:
    """Return the violations of a verify that continues from an earlier one at the commands before `cut`.

    `planned` is the world without the fault, which defines how much of the logs existed then.
    """
    scope = scope_of(world)
    letters = [
        Record(at, t, b"a", value, list(headers)) for at, (value, t, headers) in enumerate(world.letters)
    ]
    commands = [world.record(offset) for offset in range(len(world.commands))]
    topics = Topics(commands, records(world.outcomes), records(world.events), letters)
    deferred = [
        Record(at, 0, one[0].encode(), one[1]) for at, one in enumerate(world.topic) if one is not None
    ]
    ends: dict[LogName, int] = {
        "outcomes": sum(outcome_of(one) < cut for one in records(planned.outcomes)),
        "events": sum(event_of(one) < cut for one in records(planned.events)),
        "dead-letters": len(letters),
    }
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        first, second = Path(folder) / "1", Path(folder) / "2"
        prove_piece(scope, topics, Look(cut, cut, ends), None, first)
        look = Look(world.position, world.position, dict.fromkeys(LOGS, 10**6))
        topics = topics._replace(deferred=deferred)
        try:
            report = prove_piece(scope, topics, look, first, second)
        except CheckpointUnusableError:
            report = prove_piece(scope, topics, look, None, second)
    return [f"{one.log} {one.problem}" for one in report.violations]


def records(values: tuple[tuple[bytes, int], ...]) -> list[Record]:
    """Return a log of a world."""
    return [Record(at, timestamp, b"a", value, [*HEADERS]) for at, (value, timestamp) in enumerate(values)]


def walked(*sends: str, until: int = END) -> World:
    """Return a correct history: clients send first, then all commands are decided, then time passes."""
    return walked_on(World(sends, ()), until)


def walked_on(world: World, until: int = END) -> World:
    """Return the final world of a simulation from `world`."""
    while True:
        after = [one for one in steps(world) if one.now <= until]
        working = [one for one in after if one.now == world.now]
        if not after:
            return world
        world = working[-1] if working else after[0]


WAITS = walked("x", until=1)


DECIDED = walked("x")


def met(*sends: str, when: Callable[[World], bool]) -> World:
    """Return a history without a fault, up to the first world that fulfils `when`."""
    world = World(sends, ())
    while not when(world):
        after = list(steps(world))
        world = next((one for one in reversed(after) if one.now == world.now), after[0])
    return world


SAID = met("x", when=lambda one: len(one.commands) == 2 and not one.sends)
LATER = walked("late", until=0)
TWICE = walked("late", until=2)
CANCELLING = met("x", "cancel", when=lambda one: len(one.outcomes) == 2)
