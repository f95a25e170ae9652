"""The two commands of the model. The functions of cqrs decide them, fold their events and remember their ids."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from aggregates.counter import decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, StoredState, restore_dedup_entry
from cqrs_cli.deciding.packing import pack, unpack
from tests.model.rules import Rules
from tests.support.commands import command

SUBJECT = "a"
COUNTER = Aggregate.of("counter", decider)


class Commands(tuple[Record, ...]):
    """Both commands, hashable by identity. There are few instances."""

    __slots__ = ()
    __hash__ = object.__hash__  # records contain lists


#: The ids that a shard remembers: ((subject, id), decision), sorted.
Memory = tuple[tuple[tuple[str, str], DedupEntry], ...]


def _increment(offset: int, id: str, **attributes: str) -> Record:
    sent = command("counter.Increment", SUBJECT, id, {"by": offset + 1}, **attributes)
    return Record(offset, 1000 * (offset + 1), sent.key, sent.value, [*HEADERS])


#: The second command is accepted only after the first: decided on an old state, it would be a conflict.
IN_SEQUENCE = Commands(
    [_increment(0, "one", expectedversion="none"), _increment(1, "two", expectedversion="1")]
)

#: The second command repeats the first: an owner that has forgotten the first would count twice.
REPEATED = Commands([IN_SEQUENCE[0], replace(IN_SEQUENCE[0], offset=1, timestamp=2000)])


class BatchDecision(NamedTuple):
    """The result of a batch."""

    end: int  # offset after the last command of the batch
    events: tuple[bytes, ...]
    outcomes: tuple[bytes, ...]
    state: StoredState | None
    memory: Memory  # the ids that it adds
    clock: int


@cache
def decide(
    commands: Commands, start: int, end: int, state: StoredState | None, memory: Memory
) -> BatchDecision:
    """Decide the commands from `start` to `end` on this state."""
    before = unpack_state(state)
    decisions_by_id = dict(memory)
    context = BatchContext(0, lambda _: before, lambda *ids: decisions_by_id.get(ids), lambda: 0)
    decisions = decide_batch(COUNTER, commands[start:end], context)
    after = decisions.states.get(SUBJECT)
    return BatchDecision(
        end,
        tuple(value for value, _, _ in decisions.events),
        tuple(value for value, _, _ in decisions.outcomes),
        state if after is None else pack(COUNTER, SUBJECT, after),
        tuple(sorted(decisions.dedup_entries.items())),
        decisions.clock,
    )


def fold(rules: Rules, state: StoredState | None, events: Sequence[bytes]) -> StoredState | None:
    """Return the state after these events. Raises `FoldError`."""
    for event in events:
        state = _fold_event(rules, state, event)
    return state


@cache
def _fold_event(rules: Rules, state: StoredState | None, event: bytes) -> StoredState:
    return pack(COUNTER, SUBJECT, rules.fold_event(COUNTER, unpack_state(state), read_event(event)))


@cache
def ids_of_outcome(commands: Commands, outcome: bytes) -> Memory:
    """Return the ids that an outcome adds to the remembered ids."""
    envelope = parse_outcome(outcome)
    entries: dict[tuple[str, str], DedupEntry] = {}
    restore_dedup_entry(entries, envelope, commands[envelope.data.offset].timestamp)
    return tuple(entries.items())


@cache
def parse_outcome(outcome: bytes) -> OutcomeEnvelope:
    """Return the parsed outcome."""
    return read_outcome(outcome)


def merge_memories(memory: Memory, later: Memory) -> Memory:
    """Return both memories together. A later decision on an id replaces the earlier."""
    return tuple(sorted({**dict(memory), **dict(later)}.items())) if later else memory


def version(state: StoredState | None) -> int:
    """Return the number of events folded into this state."""
    return 0 if state is None else state.version


class Reference(NamedTuple):
    """The result of the commands without faults."""

    events: list[bytes]
    outcomes: list[bytes]
    states: list[StoredState | None]  # after 0, 1 and 2 of the commands


@cache
def reference(commands: Commands) -> Reference:
    """Decide the commands one by one, and remember all ids."""
    result = Reference([], [], [None])
    memory: Memory = ()
    for offset in range(len(commands)):
        decision = decide(commands, offset, offset + 1, result.states[-1], memory)
        result.events.extend(decision.events)
        result.outcomes.extend(decision.outcomes)
        result.states.append(decision.state)
        memory = merge_memories(memory, decision.memory)
    return result


def unpack_state(state: StoredState | None) -> VersionedState | None:
    return None if state is None else unpack(COUNTER, SUBJECT, state)
