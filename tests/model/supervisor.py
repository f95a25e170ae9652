"""The owner protocol around an owner: folding before the fence (step 0), and the reaction to an error (step 6)."""

from collections.abc import Callable

from cqrs_cli.core.fold import FoldError
from cqrs_cli.errors import ContradictionError
from tests.model import owner
from tests.model.broker import last_stable
from tests.model.turn import Turn
from tests.model.world import Steps


def warm(turn: Turn) -> Steps:
    """0: Read the owner's token in the shard."""
    yield turn.continue_at("opens its shard", "warm_claim", token=turn.shard.token)


def warm_claim(turn: Turn) -> Steps:
    """0: Check that no living owner uses the shard."""
    if turn.rules.is_shard_idle(turn.owner.token, turn.broker.claim):
        yield turn.continue_at("may fold", "warm_positions")
    else:
        yield turn.restart("does not fold: a living owner uses the shard")


def warm_positions(turn: Turn) -> Steps:
    """0: Read the shard's positions."""
    positions = turn.shard.positions
    yield turn.continue_at(
        "reads the shard's positions", "warm_fold", known_shard_positions=positions, positions=positions
    )


def warm_fold(turn: Turn) -> Steps:
    """0: Fold the visible records. An inconsistency is ignored here: the owner finds it after its fence."""
    broker, stored_shard = turn.broker, turn.shard
    shard = stored_shard
    try:
        if (stored_shard.token, stored_shard.positions) == (
            turn.owner.token,
            turn.owner.known_shard_positions,
        ):
            shard = owner.shard_with_events(turn, stored_shard, last_stable(broker.events))
            shard = owner.shard_with_outcomes(turn, shard, last_stable(broker.outcomes))
    except (ContradictionError, FoldError):
        pass
    yield turn.restart("has folded the visible records", shard=shard)


def doubt(turn: Turn) -> Steps:
    """Accept an inconsistency as real only while the committed claim is the owner's own.

    The read of the claim does not wait for pending commits.
    """
    owner, committed_claim = turn.owner, turn.broker.claim
    if turn.rules.is_inconsistency_real(owner.own_claim, owner.claimed, committed_claim):
        yield turn.stop_with_error(5, "the inconsistency is real")
    else:
        yield turn.drop_state("ignores the inconsistency: the committed claim is not its own")


def judge(turn: Turn) -> Steps:
    """6: Read the claim without waiting for pending commits, and start again."""
    owner = turn.owner
    judgement = turn.rules.judge(owner.own_claim, turn.broker.claim)
    if judgement.must_return:
        yield turn.return_superseded(judgement)
    elif owner.starts < turn.scenario.starts:
        yield turn.restart("starts again", owner.starts + 1)
    else:
        yield turn.end("pauses forever")


STEPS: dict[str, Callable[[Turn], Steps]] = {
    "warm": warm,
    "warm_claim": warm_claim,
    "warm_positions": warm_positions,
    "warm_fold": warm_fold,
    "fence": owner.fence,
    "claim": owner.claim,
    "outcomes_end": owner.read_outcomes_end,
    "position": owner.judge_position,
    "take": owner.take_shard,
    "fold_events": owner.fold_events,
    "fold_outcomes": owner.fold_outcomes,
    "loop": owner.loop,
    "doubt": doubt,
    "judge": judge,
}
