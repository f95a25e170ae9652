"""Steps 1 to 5 of the owner protocol as a state machine. Each function is one step; anything may happen in between.

A step that must wait yields no next world. All checks are the functions of the code.
"""

from typing import Any

from confluent_kafka import KafkaError
from msgspec.structs import replace

from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.log_state import causing_command
from cqrs_cli.deciding.position import LogState, gap, position
from cqrs_cli.deciding.recover import has_lost_events
from cqrs_cli.errors import ContradictionError
from cqrs_cli.ownership.claim import Judgement, successor_claim
from tests.model.broker import last_stable, visible
from tests.model.deciding import as_outcome, decide, fold, merged, recalled, unpacked
from tests.model.turn import Turn
from tests.model.world import Shard, Steps


def fence(turn: Turn) -> Steps:
    """1: Fence; possible once a commit under way is complete."""
    if not turn.broker.is_settling:
        yield turn.next("fences", broker=turn.broker.fenced(turn.number))


def claim(turn: Turn) -> Steps:
    """2: Read committed offsets, so wait for a pending commit, and claim."""
    owner, broker = turn.owner, turn.broker
    if broker.hides_an_offset:
        return
    judgement = turn.rules.judge(owner.mine, broker.claim)
    if judgement.must_return:
        yield turn.returns(judgement)
        return
    mine = successor_claim(owner.mine, broker.claim, turn.shard.token)
    if broker.offset is None:
        yield turn.next("finds no offset to claim", mine=mine)
    else:
        known = {"mine": mine, "committed_claim": broker.claim, "committed": broker.offset, "claimed": True}
        yield from turn.sends("claims", broker.offset, turn.rules.after("claim"), **known)


def look(turn: Turn) -> Steps:
    """3: Read the end of the outcomes."""
    yield turn.next("looks where the outcomes end", outcomes_end=turn.rules.end(turn.broker.outcomes))


def judge_position(turn: Turn) -> Steps:
    """3: Judge the position to continue at, from the log."""
    owner, broker, whole = turn.owner, turn.broker, len(turn.scenario.commands)
    events_end = turn.rules.end(broker.events)
    if last_stable(broker.outcomes) < owner.outcomes_end or last_stable(broker.events) < events_end:
        return
    decided = [as_outcome(value).data.offset for value in visible(broker.outcomes, 0, owner.outcomes_end)]
    last = decided[-1] if decided else None
    events = visible(broker.events, 0, events_end)
    log = LogState(
        aggregate="counter",
        topic="c",
        partition=0,
        topic_id="id",
        other_ids=("e", "o"),
        partitions=1,
        start=0,
        end=whole,
        last_outcome=last,
        last_outcome_matches=last is not None,
        outcomes_start=0,
        has_events=bool(events),
        last_event=causing_command(Record(0, 0, None, events[-1])) if events else None,
        last_event_matches=bool(events),
        is_new=False,
        committed=owner.committed,
        claim=owner.committed_claim,
    )
    try:
        at = position(log)
    except ContradictionError as error:
        yield turn.doubts(error)
        return
    if gap(log, at) != (at, at):
        yield turn.doubts(f"offset {owner.committed} is committed but command {at} has no outcome")
        return
    mine = replace(owner.mine, topic_id=log.topic_id, other_ids=log.other_ids, partitions=log.partitions)
    known = {"mine": mine, "at": at, "committed_claim": None, "outcomes_end": 0, "claimed": True}
    if owner.claimed and at == owner.committed:
        yield turn.next(f"goes on at {at}", **known)
    else:
        yield from turn.sends(f"goes on at {at} and says so", at, turn.rules.after(owner.step), **known)


def take(turn: Turn) -> Steps:
    """4: Take the shard."""
    token, at = turn.owner.mine.token, turn.shard.positions
    yield turn.next(
        "takes its shard", shard=turn.shard._replace(token=token), token=token, flushed=at, positions=at
    )


def fold_events(turn: Turn) -> Steps:
    """4: Fold the events up to the current end of the log."""
    broker, following = turn.broker, turn.rules.after("fold_events")
    end = turn.rules.end(broker.events)
    if last_stable(broker.events) < end:
        return
    try:
        shard = with_events(turn, turn.shard, end)
    except (ContradictionError, FoldError) as error:
        yield turn.doubts(error)
    else:
        yield turn.writes("folds the events", following, shard, outcomes_end=turn.rules.end(broker.outcomes))


def fold_outcomes(turn: Turn) -> Steps:
    """4: Fold the outcomes, and remember their ids."""
    owner, following = turn.owner, turn.rules.after("fold_outcomes")
    if last_stable(turn.broker.outcomes) < owner.outcomes_end:
        return
    try:
        shard = with_outcomes(turn, turn.shard._replace(positions=owner.positions), owner.outcomes_end)
    except ContradictionError as error:
        yield turn.doubts(error)
    else:
        shard = shard._replace(positions=shard.positions._replace(commands=owner.at))
        yield turn.writes("folds the outcomes", following, shard, outcomes_end=0)


def with_events(turn: Turn, shard: Shard, end: int) -> Shard:
    """Return the shard with the events up to `end` folded. Raises `ContradictionError`, `FoldError`."""
    at = turn.owner.positions
    if at.events > end:
        raise ContradictionError(f"the events end at {end}, before {at.events}", "")
    state = fold(turn.rules, shard.state, visible(turn.broker.events, at.events, end))
    return shard._replace(state=state, positions=at._replace(events=end))


def with_outcomes(turn: Turn, shard: Shard, end: int) -> Shard:
    """Return the shard with the outcomes up to `end` folded. Raises `ContradictionError`."""
    at, commands = shard.positions, turn.scenario.commands
    if at.outcomes > end:
        raise ContradictionError(f"the outcomes end at {end}, before {at.outcomes}", "")
    memory = shard.memory
    for value in visible(turn.broker.outcomes, at.outcomes, end):
        outcome = as_outcome(value)
        if has_lost_events(unpacked(shard.state), outcome):
            raise ContradictionError(f"events of command {outcome.data.offset} were lost", "")
        offset = outcome.data.offset
        at = at._replace(commands=offset + 1, clock=max(at.clock, commands[offset].timestamp))
        if turn.rules.remembers_across_restarts:
            memory = merged(memory, recalled(commands, value))
    return shard._replace(memory=memory, positions=at._replace(outcomes=end))


def loop(turn: Turn) -> Steps:
    """5: Apply now or later, decide one or two commands, end when all are decided, or be idle."""
    owner, whole = turn.owner, len(turn.scenario.commands)
    if owner.positions != owner.flushed:
        memory = merged(turn.shard.memory, owner.staged)
        shard = Shard("", owner.positions, owner.state, memory)
        yield turn.writes("applies", "loop", shard, staged=())
    else:
        if owner.at == whole:
            yield turn.leaves("ends: all is decided")
        yield from _idle(turn)
    for end in range(min(whole, owner.at + owner.most), owner.at, -1):
        yield from commits(turn, end)


def commits(turn: Turn, end: int, loses_a_record: bool = False) -> Steps:
    """5: Decide the commands up to `end`, and commit."""
    owner, broker, found = turn.owner, turn.broker, turn.shard
    if turn.is_fenced:
        yield turn.fails(KafkaError._FENCED, end - owner.at)
    elif broker.transaction is None:
        memory = merged(found.memory, owner.staged)
        batch = decide(turn.scenario.commands, owner.at, end, owner.state or found.state, memory)
        outcomes = batch.outcomes[:-1] if loses_a_record else batch.outcomes
        label = f"decides {owner.at} to {end - 1} and commits"
        early: dict[str, Any] = {}
        if not turn.rules.applies_after_the_commit:
            at = owner.positions._replace(commands=end, clock=batch.clock)
            shard = Shard(owner.token, at, batch.state, merged(memory, batch.memory))
            early = {"shard": shard, "flushed": at, "positions": at}
        produced = broker.produced(turn.number, end, owner.mine, batch.events, outcomes)
        yield turn.to(label, "await", broker=produced, batch=batch, **early)


def _idle(turn: Turn) -> Steps:
    """5: Check the claim while idle: an owner that commits nothing would not notice that it was fenced."""
    owner, broker = turn.owner, turn.broker
    if broker.offset is None:
        yield from turn.sends("finds its offset gone and commits it again", owner.at, "loop")
        return
    judgement = turn.rules.judge(owner.mine, broker.claim)
    if judgement.must_return:
        yield turn.returns(judgement)
    elif judgement is not Judgement.OWN:
        yield turn.drops("finds an older run's claim")
