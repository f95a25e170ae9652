"""The rules for deferred commands: silent on every history that the model reaches, and each planted fault is found."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.carried import BehindError
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.partition import Proof, Scratch
from cqrs_cli.proof.scope import Scope
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.trace_index import TraceIndex
from tests.core.deferral.world import END, SCENARIOS, TOPIC, World, steps
from tests.proof.pieces import IN_MEMORY, LOGS, Look, Topics, prove_piece
from tests.proof.reading import event_of, outcome_of

#: Histories of each scenario that are proved.
PROVED = 40


def proved(world: World) -> list[str]:
    """The violations in a history that nobody works on."""
    scope = Scope(
        "way", "", 0, {"events": 0, "outcomes": 0, "dead-letters": 0}, 24 * 3600 * 1000, topic_id=TOPIC
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        indexes = []
        for name in "oel":
            (folder / name).mkdir()
            indexes.append(stack.enter_context(closing(TraceIndex(folder / name))))
        proof = Proof(scope, Scratch(indexes[0], indexes[1], indexes[2], MemoryStore(24 * 3600 * 1000)))
        proof.outcomes.read(_records(world.outcomes))
        proof.events.read(_records(world.events))
        letters = enumerate(world.letters)
        proof.dead_letters.read(
            Record(at, t, b"a", value, list(headers)) for at, (value, t, headers) in letters
        )
        topic = [(at, *one) for at, one in enumerate(world.topic) if one is not None]
        proof.deferred.read(Record(at, 0, key.encode(), value) for at, key, value in topic)
        decided = proof.decided(world.position, world.position, 0)
        commands = [world.record(offset) for offset in range(len(world.commands))]
        proof.conclude(iter(commands[: world.position]), decided)
        proof.conclude_deferred(commands[world.position :])
        return [f"{one.kind} {one.what}" for one in proof.report().violations]


def proved_in_pieces(world: World, planned: World, cut: int) -> list[str]:
    """The violations that a verify finds which goes on from one that came when the commands below `cut` were decided.

    `planned`: the world without the fault, which says how much of the logs was there then.
    """
    scope = Scope(
        "way", "", 0, {"events": 0, "outcomes": 0, "dead-letters": 0}, 24 * 3600 * 1000, topic_id=TOPIC
    )
    letters = [
        Record(at, t, b"a", value, list(headers)) for at, (value, t, headers) in enumerate(world.letters)
    ]
    commands = [world.record(offset) for offset in range(len(world.commands))]
    topics = Topics(commands, _records(world.outcomes), _records(world.events), letters)
    deferred = [
        Record(at, 0, one[0].encode(), one[1]) for at, one in enumerate(world.topic) if one is not None
    ]
    ends: dict[LogName, int] = {
        "outcomes": sum(outcome_of(one) < cut for one in _records(planned.outcomes)),
        "events": sum(event_of(one) < cut for one in _records(planned.events)),
        "dead-letters": len(letters),
    }
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        first, second = Path(folder) / "1", Path(folder) / "2"
        prove_piece(scope, topics, Look(cut, cut, ends), None, first)
        look = Look(world.position, world.position, dict.fromkeys(LOGS, 10**6))
        topics = topics._replace(deferred=deferred)
        try:
            report = prove_piece(scope, topics, look, first, second)
        except BehindError:
            report = prove_piece(scope, topics, look, None, second)
    return [f"{one.kind} {one.what}" for one in report.violations]


def _records(values: tuple[tuple[bytes, int], ...]) -> list[Record]:
    return [Record(at, timestamp, b"a", value, [*HEADERS]) for at, (value, timestamp) in enumerate(values)]


@pytest.mark.pins("verifiable")
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "skipped"])
def test_clean_deferrals_are_silent(scenario: str) -> None:
    """Any moment will do: parked, said again, cancelled, decided."""
    sends, left = SCENARIOS[scenario]
    open_ = [World(sends, tuple(sorted(left.items())))]
    seen = dict.fromkeys(open_)
    while open_ and len(seen) < 20 * PROVED:
        for after in steps(open_.pop(0)):
            if after not in seen:
                seen[after] = None
                open_.append(after)
    chosen = sorted((one for one in seen if one.is_up), key=lambda one: len(one.outcomes))
    for world in chosen[:: max(1, len(chosen) // PROVED)]:
        assert proved(world) == []


def walked(*sends: str, until: int = END) -> World:
    """The history without a fault: clients send first, then all is decided, then time passes."""
    world = World(sends, ())
    while True:
        after = [one for one in steps(world) if one.now <= until]
        working = [one for one in after if one.now == world.now]
        if not after:
            return world
        world = working[-1] if working else after[0]


def outcome(number: int, old: bytes, new: bytes) -> Callable[[World], World]:
    """Replace text in an outcome."""

    def change(world: World) -> World:
        outcomes = list(world.outcomes)
        value, timestamp = outcomes[number]
        assert old in value
        outcomes[number] = value.replace(old, new), timestamp
        return world._replace(outcomes=tuple(outcomes))

    return change


def entry(**members: Any) -> Callable[[World], World]:
    """Change the last entry of the deferred topic; `gone` removes it."""

    def change(world: World) -> World:
        last = world.topic[-1]
        assert last is not None and last[1] is not None
        value = (
            None
            if "gone" in members
            else replace(read_deferral(last[0].encode(), last[1]), **members).value()
        )
        return world._replace(topic=(*world.topic[:-1], (last[0], value)))

    return change


WAITS = walked("x", until=1)
DECIDED = walked("x")
CANCELLED = walked("x", "cancel")
COPIED = walked("late", "copy", "y")


def test_walks_end_as_they_should() -> None:
    ends = [
        [one.data.reason or one.data.status for one in each.read()] for each in (WAITS, DECIDED, CANCELLED)
    ]
    assert ends == [["NOT_YET"], ["NOT_YET", "accepted"], ["NOT_YET", "unchanged", "CANCELLED"]]
    for each in (WAITS, DECIDED, CANCELLED, COPIED):
        assert proved(each) == []
        assert [proved_in_pieces(each, each, cut) for cut in range(each.position)] == [[]] * each.position


@pytest.mark.parametrize(
    ("world", "fault", "found"),
    [
        (WAITS, entry(gone=True), "the deferred topic does not have it"),
        (WAITS, entry(cancelled=True), "says that command 0 is cancelled"),
        (WAITS, entry(said=7, said_topic=TOPIC), "stands again at 7: there it waits for nobody"),
        (WAITS, outcome(0, b'"due":', b'"dues":'), "without a time when it is due"),
        (DECIDED, lambda one: one._replace(topic=one.topic[:-1]), "is of command 0, which is not deferred"),
        (DECIDED, outcome(1, b'"0/0"}', b'"0/9"}'), "says deferredfrom '0/9'"),
        (DECIDED, outcome(1, b',"deferredfrom":"0/0"', b""), "no owner has said its command again"),
        (DECIDED, outcome(1, b'"x"', b'"z"'), "has another subject or id"),
        (CANCELLED, outcome(1, b'"offset":0}', b'"offset":5}'), "is about command 5, which is not deferred"),
        (CANCELLED, outcome(2, b'"CANCELLED"', b'"GAVE_UP"'), "though command 0 was cancelled"),
        (DECIDED, outcome(0, b'"NOT_YET"', b'"CANCELLED"'), "is deferred with the reason CANCELLED"),
    ],
)
def test_planted_fault_is_found(world: World, fault: Callable[[World], World], found: str) -> None:
    faulty = fault(world)
    violations = proved(faulty)
    assert any(found in violation for violation in violations), violations
    for cut in range(world.position + 1):
        assert proved_in_pieces(faulty, world, cut) == violations


def test_second_decision_is_found() -> None:
    """The command is said again once more, and decided."""
    value, timestamp = DECIDED.outcomes[1]
    again = (
        value.replace(b'"0/1"', b'"0/2"')
        .replace(b'"offset":1', b'"offset":2')
        .replace(b'"version":1', b'"version":2')
    )
    event = DECIDED.events[0][0].replace(b'"0/1/0"', b'"0/2/0"').replace(b'version":1', b'version":2')
    world = DECIDED._replace(
        commands=(*DECIDED.commands, DECIDED.commands[1]),
        outcomes=(*DECIDED.outcomes, (again, timestamp)),
        events=(*DECIDED.events, (event, timestamp)),
        position=3,
    )
    assert any("is not deferred any more" in violation for violation in proved(world))
