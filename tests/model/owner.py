"""The owner protocol as a machine: each function is one step, and between any two of them anything may happen.

A step that waits for somebody else gives nothing. The judgements are those of the code.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from cqrs_cli.core.fold import FoldError
from cqrs_cli.errors import ContradictionError
from cqrs_cli.owner.claim import Judgement
from tests.model import tenure
from tests.model.broker import last_stable
from tests.model.deciding import decide, merged
from tests.model.turn import Turn
from tests.model.world import Shard, Steps


def warm(turn: Turn) -> Steps:
    """0: see whose shard it is."""
    yield turn.to("opens its shard", "warm_claim", token=turn.shard.token)


def warm_claim(turn: Turn) -> Steps:
    """0: leave a living owner's shard alone."""
    if turn.rules.may_warm(turn.owner.token, turn.broker.claim):
        yield turn.to("may fold", "warm_ledger")
    else:
        yield turn.begins("leaves its shard to the living owner")


def warm_ledger(turn: Turn) -> Steps:
    """0: see how far the shard is."""
    at = turn.shard.positions
    yield turn.to("sees how far the shard is", "warm_fold", settled=at, positions=at)


def warm_fold(turn: Turn) -> Steps:
    """0: fold what is visible. Nothing here is a verdict: whatever is strange is for later."""
    broker, found = turn.broker, turn.shard
    shard = found
    try:
        if (found.token, found.positions) == (turn.owner.token, turn.owner.settled):
            shard = tenure.with_events(turn, found, last_stable(broker.events))
            shard = tenure.with_outcomes(turn, shard, last_stable(broker.outcomes))
    except (ContradictionError, FoldError):
        pass
    yield turn.begins("has folded what is visible", shard=shard)


def loop(turn: Turn) -> Steps:
    """5: apply now or later, decide one or two, end when all is done; or nothing comes for a while."""
    owner, whole = turn.owner, len(turn.scenario.commands)
    if owner.positions != owner.settled:
        memory = merged(turn.shard.memory, owner.waiting)
        shard = Shard("", owner.positions, owner.state, memory)
        yield turn.writes("applies", "loop", shard, waiting=())
    else:
        if owner.at == whole:
            yield turn.leaves("ends: all is decided")
        yield from _idle(turn)
    for end in range(min(whole, owner.at + owner.most), owner.at, -1):
        yield from commits(turn, end)


def commits(turn: Turn, end: int, loses_a_record: bool = False) -> Steps:
    """5: decide the commands up to `end`, and commit."""
    owner, broker, found = turn.owner, turn.broker, turn.shard
    if turn.is_fenced:
        yield turn.fails(KafkaError._FENCED, end - owner.at)
    elif broker.transaction is None:
        memory = merged(found.memory, owner.waiting)
        batch = decide(turn.scenario.commands, owner.at, end, owner.state or found.state, memory)
        outcomes = batch.outcomes[:-1] if loses_a_record else batch.outcomes
        label = f"decides {owner.at} to {end - 1} and commits"
        early: dict[str, Any] = {}
        if not turn.rules.applies_after_the_commit:
            at = owner.positions._replace(commands=end, clock=batch.clock)
            shard = Shard(owner.token, at, batch.state, merged(memory, batch.memory))
            early = {"shard": shard, "settled": at, "positions": at}
        produced = broker.produced(turn.number, end, owner.mine, batch.events, outcomes)
        yield turn.to(label, "await", broker=produced, batch=batch, **early)


def _idle(turn: Turn) -> Steps:
    """5: an owner that commits nothing would not notice that it was fenced."""
    owner, broker = turn.owner, turn.broker
    if broker.offset is None:
        yield from turn.sends("finds its offset gone and commits it again", owner.at, "loop")
        return
    judgement = turn.rules.judge(owner.mine, broker.claim)
    if judgement.ends:
        yield turn.returns(judgement)
    elif judgement is not Judgement.MINE:
        yield turn.drops("finds an older run's claim")


def doubt(turn: Turn) -> Steps:
    """A contradiction is believed only while the claim is mine, asked without waiting for pending commits."""
    owner, committed_claim = turn.owner, turn.broker.claim
    if turn.rules.believable(owner.mine, owner.claimed, committed_claim):
        yield turn.stops(5, "the contradiction is believed")
    else:
        yield turn.drops("does not believe it: the claim is not its own")


def judge(turn: Turn) -> Steps:
    """6: read the claim without waiting for pending commits, and begin again."""
    owner = turn.owner
    judgement = turn.rules.judge(owner.mine, turn.broker.claim)
    if judgement.ends:
        yield turn.returns(judgement)
    elif owner.tenures < turn.scenario.tenures:
        yield turn.begins("begins again", owner.tenures + 1)
    else:
        yield turn.leaves("pauses for ever")


STEPS: dict[str, Callable[[Turn], Steps]] = {
    "warm": warm,
    "warm_claim": warm_claim,
    "warm_ledger": warm_ledger,
    "warm_fold": warm_fold,
    "fence": tenure.fence,
    "claim": tenure.claim,
    "look": tenure.look,
    "position": tenure.judge_position,
    "take": tenure.take,
    "fold_events": tenure.fold_events,
    "fold_outcomes": tenure.fold_outcomes,
    "loop": loop,
    "doubt": doubt,
    "judge": judge,
}
