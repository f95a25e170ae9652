"""One partition with deferred commands, as a value: topics, the shards of two machines, clocks and clients.

Every step calls the functions that owners call. Owners crash between commit and apply, shards are lost or restored from
old copies, and the deferred topic is compacted. Clients repeat, copy and cancel. An operator accepts losses.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple, cast

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import MAX_BYTES
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.deferrals import DeferralLimits
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.payload_reference import with_payload_data
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding import deferred_fold as fold
from cqrs_cli.deciding.broker_clock import BrokerClock
from cqrs_cli.deciding.deferred_commands import deferred_records
from cqrs_cli.kafka.partition_log import PartitionLog
from tests.core.deferral.cache import RecoveringShard
from tests.support.commands import command

TOPIC, SECOND, END = "T", 1000, 5


class Go(cqrs.Command):
    after: int = 0


class Gone(cqrs.Event):
    pass


class Way(cqrs.State):
    length: int = 0


def decide(go: Go, way: Way) -> Iterator[Gone]:
    if way.length < go.after:
        raise cqrs.Later()
    yield Gone()


def evolve(way: Way, gone: Gone) -> Way:
    return Way(way.length + 1)


WAY = Aggregate.of("way", cqrs.Decider(decide, evolve, Way()))


#: The rules of the partition. The limits of its topics are the defaults of `DeferralLimits`.
RULES = DecisionRules(0, "", TOPIC, None, None, 24 * 3600 * 1000, MAX_BYTES, DeferralLimits(), inf)


class Shard(NamedTuple):
    """The state that a machine has folded."""

    entries: tuple[Deferral, ...] = ()
    ids: tuple[tuple[tuple[str, str], DedupEntry], ...] = ()
    outcomes: int = 0
    deferred: int = 0


class World(NamedTuple):
    """The model's state.

    `faults_left` has the number of remaining faults of each kind, `sends` the commands still to be sent.
    """

    sends: tuple[str, ...]
    faults_left: tuple[tuple[str, int], ...]
    commands: tuple[tuple[bytes, int], ...] = ()  # value, timestamp
    outcomes: tuple[tuple[bytes, int], ...] = ()
    events: tuple[tuple[bytes, int], ...] = ()
    letters: tuple[tuple[bytes | None, int, tuple[tuple[str, bytes | None], ...]], ...] = ()
    topic: tuple[tuple[str, bytes | None] | None, ...] = ()  # None if compacted
    position: int = 0
    shard: Shard = Shard()
    other: Shard = Shard()  # of the other machine
    is_up: bool = True
    now: int = 0
    rules: DecisionRules = RULES
    ahead: int = 0  # ms by which the owner's clock is ahead, as far as the owner knows

    def read(self) -> list[OutcomeEnvelope]:
        return [read_outcome(value) for value, _ in self.outcomes]

    def record(self, offset: int) -> Record:
        value, timestamp = self.commands[offset]
        return Record(offset, timestamp, b"a", value, [*HEADERS])

    def is_over(self) -> bool:
        """True if no further step can change the world."""
        has_deferred = any(entry.is_parked for entry in self.shard.entries)
        return self.is_up and not self.sends and self.position == len(self.commands) and not has_deferred


def client_command(name: str, world: World) -> bytes | None:
    """Return a client's command by name or JSON; None if it is not possible yet. A copy repeats an owner's record."""
    if name.startswith("{"):
        return name.encode()
    if name == "copy":
        resubmitted = [value for value, _ in world.commands if b"deferredfrom" in value]
        return resubmitted[-1] if resubmitted else None
    if name in ("cancel", "release"):
        return command(f"cqrs.{name.title()}", "a", "stop", {"id": "x"}).value
    attributes = {"notbefore": "1970-01-01T00:00:02Z"} if name == "x" else {}
    return command("way.Go", "a", name[:1], {"after": int(name == "late")}, **attributes).value


def steps(world: World) -> Iterator[World]:
    """Yield every possible next world."""
    if world.sends and (value := client_command(world.sends[0], world)) is not None:
        timestamp = max(0, world.now - 1) * SECOND  # the broker's clock lags the owner's
        yield world._replace(sends=world.sends[1:], commands=(*world.commands, (value, timestamp)))
    if world.now < END:
        yield world._replace(now=world.now + 1)
    yield from after_faults(world)
    if not world.is_up:
        yield recover(world)
        return
    for next_world, shard in transactions(world):
        yield next_world._replace(shard=shard)
        if (after_crash := with_one_fault_less(next_world, "crash")) is not None:
            yield after_crash._replace(is_up=False)


def after_faults(world: World) -> Iterator[World]:
    if (next_world := with_one_fault_less(world, "lose")) is not None:
        yield next_world._replace(shard=Shard(), is_up=False)
    if (next_world := with_one_fault_less(world, "switch")) is not None:
        yield next_world._replace(shard=world.other, other=world.shard, is_up=False)
    if (next_world := with_one_fault_less(world, "skip")) is not None and world.position < len(
        world.commands
    ):
        yield next_world._replace(position=len(world.commands), is_up=False)  # an accepted loss
    if (next_world := with_one_fault_less(world, "compact")) is not None:
        latest = {entry[0]: number for number, entry in enumerate(world.topic) if entry is not None}
        kept_offsets = {
            number for number in latest.values() if (world.topic[number] or ("", None))[1] is not None
        }
        yield next_world._replace(
            topic=tuple(entry if number in kept_offsets else None for number, entry in enumerate(world.topic))
        )


def with_one_fault_less(world: World, fault: str) -> World | None:
    faults_left = dict(world.faults_left)
    if not faults_left.get(fault):
        return None
    return world._replace(faults_left=tuple(sorted({**faults_left, fault: faults_left[fault] - 1}.items())))


def transactions(world: World) -> Iterator[tuple[World, Shard]]:
    """Yield the commits that an owner may make: the world after the commit, and the shard after it is applied."""
    table = DeferralTable(world.shard.entries)
    deferrals = world.rules.deferrals(lambda: table, not table.is_empty())
    if world.position < len(world.commands):
        length = sum(outcome.data.events for outcome in world.read())
        state = VersionedState(length, Way(length), 0, 0) if length else None
        ids = dict(world.shard.ids)
        batch_clock = max((timestamp for _, timestamp in world.commands[: world.position]), default=0)
        context = world.rules.batch_context(
            lambda _: state, lambda *id: ids.get(id), lambda: world.now * SECOND, batch_clock, deferrals, {}
        )
        decisions = decide_batch(WAY, [world.record(world.position)], context)
        next_world = world._replace(
            position=world.position + 1,
            outcomes=(*world.outcomes, *((value, timestamp) for value, _, timestamp in decisions.outcomes)),
            events=(
                *world.events,
                *(
                    (with_payload_data(value, decisions.payloads), time)
                    for value, _, time in decisions.events
                ),
            ),
            letters=(
                *world.letters,
                *(
                    (letter.value, letter.timestamp, tuple(letter.headers))
                    for letter in decisions.dead_letters
                ),
            ),
        )
        yield commit(
            next_world, decisions.deferral_changes, tuple(sorted({**ids, **decisions.dedup_entries}.items()))
        )
        return
    owner_time, owner_clock = world.now * SECOND, BrokerClock(world.rules.limits.clock_tolerance)
    owner_clock.lead = world.ahead
    if due := deferrals.due_entries(int(owner_clock.now(owner_time)), 9, 1e9):
        resubmitted: list[tuple[bytes, int]] = []
        for entry in due:
            deferrals.set_resubmitted_offset(entry, len(world.commands) + len(resubmitted))
            resubmitted.append((deferrals.resubmission_document(entry), max(0, world.now - 1) * SECOND))
        owner_clock.learn_from_timestamps(owner_time, (stamp for _, stamp in resubmitted))
        next_world = world._replace(commands=(*world.commands, *resubmitted), ahead=owner_clock.lead)
        yield commit(next_world, deferrals.changed_entries, world.shard.ids)


def commit(world: World, changed_entries: Mapping[str, Deferral | None], ids: Any) -> tuple[World, Shard]:
    topic = (*world.topic, *((key.decode(), value) for value, key in deferred_records(changed_entries)))
    table = DeferralTable(world.shard.entries)
    table.apply_changes(changed_entries)
    shard = Shard(_sorted(table), ids, len(world.outcomes), len(topic))
    return world._replace(topic=topic), shard


def _sorted(table: DeferralTable) -> tuple[Deferral, ...]:
    return tuple(table._entries[key] for key in sorted(table._entries))


def recover(world: World) -> World:
    """Recover as in step 4 of an owner: fold the deferred topic, then the outcomes, then defer lost commands again."""
    recovering_shard = RecoveringShard(world)
    fold.fold_deferred(cast(PartitionLog, recovering_shard), recovering_shard, (0, len(world.topic)))
    ids: dict[tuple[str, str], DedupEntry] = dict(world.shard.ids)
    folded = [
        (Record(offset, timestamp), read_outcome(value))
        for offset, (value, timestamp) in enumerate(world.outcomes)
        if offset >= world.shard.outcomes
    ]
    for record, outcome in folded:
        restore_dedup_entry(ids, outcome, record.timestamp)
    recovering_shard.fold(
        recovering_shard.positions, deferred=fold.entries_ended_by(recovering_shard, TOPIC, folded)
    )
    fold.defer_lost_again(recovering_shard, TOPIC, world.position)
    shard = Shard(
        _sorted(recovering_shard.table), tuple(sorted(ids.items())), len(world.outcomes), len(world.topic)
    )
    return world._replace(shard=shard, is_up=True, ahead=0)


SCENARIOS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "two machines": (("x",), {"switch": 3, "compact": 1, "crash": 1}),
    "lost": (("x",), {"lose": 1, "crash": 2, "compact": 1}),
    "repeated": (("x", "x"), {"crash": 1, "lose": 1}),
    "copied": (("x", "copy"), {"crash": 1, "lose": 1}),
    "later copied": (("late", "copy", "y"), {"lose": 1}),
    "cancelled": (("x", "cancel", "x"), {"crash": 1, "lose": 1}),
    "later": (("late", "y"), {"crash": 1, "lose": 1}),
    "ahead": (("x",), {"crash": 1, "lose": 1}),
    "ahead released": (("x", "release"), {"crash": 1}),
    "ahead later": (("late", "y"), {"crash": 1}),
    "skipped": (("x",), {"skip": 1, "lose": 1}),
}


def first_world(scenario: str) -> World:
    """Return the first world of a scenario. Scenarios `ahead…` tolerate no difference of clocks."""
    sends, faults_left = SCENARIOS[scenario]
    limits = RULES.limits._replace(clock_tolerance=0) if scenario.startswith("ahead") else RULES.limits
    return World(sends, tuple(sorted(faults_left.items())), rules=replace(RULES, limits=limits))
