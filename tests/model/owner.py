"""Steps 1 to 5 of the owner protocol as a state machine. Each function is one step; anything may happen in between.

A step that must wait yields no next world. All checks are the functions of the code.
"""

from typing import Any

from confluent_kafka import KafkaError
from msgspec.structs import replace

from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.log_state import causing_command
from cqrs_cli.deciding.position import LogState, gap
from cqrs_cli.deciding.recover import has_lost_events
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import Judgement, successor_claim
from tests.model.broker import Broker, last_stable, visible_records
from tests.model.deciding import decide, fold, ids_of_outcome, merge_memories, parse_outcome, unpack_state
from tests.model.rules import Rules
from tests.model.turn import Turn
from tests.model.world import Shard, Steps


def fence(turn: Turn) -> Steps:
    """1: Fence. The broker accepts the fence once a pending commit is complete."""
    if not turn.broker.has_pending_commit:
        yield turn.continue_next("fences", broker=turn.broker.after_fence(turn.number))


def claim(turn: Turn) -> Steps:
    """2: Read the committed claim, and commit the own claim. The read waits for a pending offset commit."""
    owner, broker = turn.owner, turn.broker
    if broker.hides_offset_commit:
        return
    judgement = turn.rules.judge(owner.own_claim, broker.claim)
    if judgement.must_return:
        yield turn.return_superseded(judgement)
        return
    own_claim = successor_claim(owner.own_claim, broker.claim, turn.shard.token)
    if broker.offset is not None and last_stable(broker.outcomes) < len(broker.outcomes):
        return  # the read of the last outcome waits for an open transaction
    if broker.offset is None:
        yield turn.continue_next("finds no offset to claim", own_claim=own_claim)
    else:
        knowledge = {
            "own_claim": own_claim,
            "committed_claim": broker.claim,
            "claimed": True,
        }
        offset = first_undecided(turn.rules, broker)
        yield from turn.commit_position("claims", offset, turn.rules.after("claim"), **knowledge)


def first_undecided(rules: Rules, broker: Broker) -> int:
    """Return the group's offset, or the offset after the last outcome if that is later."""
    assert broker.offset is not None
    outcomes = visible_records(broker.outcomes, 0, len(broker.outcomes))
    if not outcomes or not rules.claims_first_undecided:
        return broker.offset
    return max(broker.offset, parse_outcome(outcomes[-1]).data.offset + 1)


def read_outcomes_end(turn: Turn) -> Steps:
    """3: Read the end offset of the outcomes."""
    yield turn.continue_next(
        "reads the end of the outcomes", outcomes_end=turn.rules.read_end(turn.broker.outcomes)
    )


def judge_position(turn: Turn) -> Steps:
    """3: Find the position from the log, and compare it with the committed offset."""
    owner, broker, command_count = turn.owner, turn.broker, len(turn.scenario.commands)
    events_end = turn.rules.read_end(broker.events)
    if last_stable(broker.outcomes) < owner.outcomes_end or last_stable(broker.events) < events_end:
        return
    decided_offsets = [
        parse_outcome(value).data.offset for value in visible_records(broker.outcomes, 0, owner.outcomes_end)
    ]
    last_offset = decided_offsets[-1] if decided_offsets else None
    events = visible_records(broker.events, 0, events_end)
    log = LogState(
        aggregate="counter",
        topic="c",
        partition=0,
        topic_id="id",
        other_ids=("e", "o"),
        partitions=1,
        start=0,
        end=command_count,
        last_outcome_command=last_offset,
        last_outcome_matches=last_offset is not None,
        outcomes_start=1
        + max((n for n, slot in enumerate(broker.outcomes) if slot.status == "deleted"), default=-1),
        has_events=bool(events),
        last_event_command=causing_command(Record(0, 0, None, events[-1])) if events else None,
        last_event_matches=bool(events),
        is_new=False,
        committed=owner.committed,
        claim=owner.committed_claim,
    )
    try:
        next_offset = turn.rules.position(log)
    except ContradictionError as error:
        yield turn.doubt(error)
        return
    if gap(log, next_offset) != (next_offset, next_offset):
        yield turn.doubt(f"offset {owner.committed} is committed but command {next_offset} has no outcome")
        return
    own_claim = replace(
        owner.own_claim, topic_id=log.topic_id, other_ids=log.other_ids, partitions=log.partitions
    )
    knowledge = {
        "own_claim": own_claim,
        "next_offset": next_offset,
        "committed_claim": None,
        "outcomes_end": 0,
        "claimed": True,
    }
    if owner.claimed and next_offset == owner.committed:
        yield turn.continue_next(f"continues at {next_offset}", **knowledge)
    else:
        yield from turn.commit_position(
            f"continues at {next_offset} and commits this position",
            next_offset,
            turn.rules.after(owner.step),
            **knowledge,
        )


def take_shard(turn: Turn) -> Steps:
    """4: Take the shard."""
    token, positions = turn.owner.own_claim.token, turn.shard.positions
    yield turn.continue_next(
        "takes its shard",
        shard=turn.shard._replace(token=token),
        token=token,
        known_shard_positions=positions,
        positions=positions,
    )


def fold_events(turn: Turn) -> Steps:
    """4: Fold the events up to the current end of the log."""
    broker, next_step = turn.broker, turn.rules.after("fold_events")
    end = turn.rules.read_end(broker.events)
    if last_stable(broker.events) < end:
        return
    try:
        shard = shard_with_events(turn, turn.shard, end)
    except (ContradictionError, FoldError) as error:
        yield turn.doubt(error)
    else:
        yield turn.write_shard(
            "folds the events", next_step, shard, outcomes_end=turn.rules.read_end(broker.outcomes)
        )


def fold_outcomes(turn: Turn) -> Steps:
    """4: Fold the outcomes, and remember their ids."""
    owner, next_step = turn.owner, turn.rules.after("fold_outcomes")
    if last_stable(turn.broker.outcomes) < owner.outcomes_end:
        return
    try:
        shard = shard_with_outcomes(turn, turn.shard._replace(positions=owner.positions), owner.outcomes_end)
    except ContradictionError as error:
        yield turn.doubt(error)
    else:
        shard = shard._replace(positions=shard.positions._replace(commands=owner.next_offset))
        yield turn.write_shard("folds the outcomes", next_step, shard, outcomes_end=0)


def shard_with_events(turn: Turn, shard: Shard, end: int) -> Shard:
    """Return the shard with the events up to `end` folded. Raises `ContradictionError`, `FoldError`."""
    positions = turn.owner.positions
    if positions.events > end:
        raise ContradictionError(f"the events end at {end}, before {positions.events}", "")
    state = fold(turn.rules, shard.state, visible_records(turn.broker.events, positions.events, end))
    return shard._replace(state=state, positions=positions._replace(events=end))


def shard_with_outcomes(turn: Turn, shard: Shard, end: int) -> Shard:
    """Return the shard with the outcomes up to `end` folded. Raises `ContradictionError`."""
    positions, commands = shard.positions, turn.scenario.commands
    if positions.outcomes > end:
        raise ContradictionError(f"the outcomes end at {end}, before {positions.outcomes}", "")
    memory = shard.memory
    for value in visible_records(turn.broker.outcomes, positions.outcomes, end):
        outcome = parse_outcome(value)
        if has_lost_events(unpack_state(shard.state), outcome):
            raise ContradictionError(f"events of command {outcome.data.offset} were lost", "")
        offset = outcome.data.offset
        positions = positions._replace(
            commands=offset + 1, clock=max(positions.clock, commands[offset].timestamp)
        )
        if turn.rules.remembers_across_restarts:
            memory = merge_memories(memory, ids_of_outcome(commands, value))
    return shard._replace(memory=memory, positions=positions._replace(outcomes=end))


def loop(turn: Turn) -> Steps:
    """5: Apply decisions to the shard, decide one or two commands, check the claim while idle, or end."""
    owner, command_count = turn.owner, len(turn.scenario.commands)
    if owner.positions != owner.known_shard_positions:
        memory = merge_memories(turn.shard.memory, owner.unapplied_ids)
        shard = Shard("", owner.positions, owner.state, memory)
        yield turn.write_shard("applies", "loop", shard, unapplied_ids=())
    else:
        if owner.next_offset != owner.committed:
            yield from turn.commit_position("commits its position", owner.next_offset, "loop")
        elif owner.next_offset == command_count:
            yield turn.end("ends: all commands are decided")
        yield from _idle(turn)
    for end in range(min(command_count, owner.next_offset + owner.batch_limit), owner.next_offset, -1):
        yield from commit_batch(turn, end)
        if turn.scenario.omits_positions:
            yield from commit_batch(turn, end, commits_position=False)


def commit_batch(turn: Turn, end: int, loses_record: bool = False, commits_position: bool = True) -> Steps:
    """5: Decide the commands up to `end`, and commit, with or without the position."""
    owner, broker, stored_shard = turn.owner, turn.broker, turn.shard
    if turn.is_fenced:
        yield turn.fail(KafkaError._FENCED, end - owner.next_offset)
    elif broker.transaction is None:
        memory = merge_memories(stored_shard.memory, owner.unapplied_ids)
        batch = decide(
            turn.scenario.commands, owner.next_offset, end, owner.state or stored_shard.state, memory
        )
        outcomes = batch.outcomes[:-1] if loses_record else batch.outcomes
        label = f"decides {owner.next_offset} to {end - 1} and commits"
        if not commits_position:
            label += " without its position"
        early_write: dict[str, Any] = {}
        if not turn.rules.applies_after_commit:
            positions = owner.positions._replace(commands=end, clock=batch.clock)
            shard = Shard(owner.token, positions, batch.state, merge_memories(memory, batch.memory))
            early_write = {"shard": shard, "known_shard_positions": positions, "positions": positions}
        broker_after = broker.after_produce(
            turn.number, end, owner.own_claim, batch.events, outcomes, commits_position
        )
        yield turn.continue_at(label, "await", broker=broker_after, batch=batch, **early_write)


def _idle(turn: Turn) -> Steps:
    """5: Check the claim while idle: an owner that commits nothing would not notice that it was fenced."""
    owner, broker = turn.owner, turn.broker
    if broker.offset is None:
        yield from turn.commit_position(
            "finds no committed offset and commits the position again", owner.next_offset, "loop"
        )
        return
    judgement = turn.rules.judge(owner.own_claim, broker.claim)
    if judgement.must_return:
        yield turn.return_superseded(judgement)
    elif judgement is not Judgement.OWN:
        yield turn.drop_state("finds the claim of an older run")
