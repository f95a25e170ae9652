"""The rules of the protocol that can be broken one by one. The defaults are the functions of the code."""

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaError

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.deciding.position import LogState, position
from cqrs_cli.kafka.write_errors import is_caused_by_batch
from cqrs_cli.ownership import claim as claims
from cqrs_cli.ownership.claim import Claim, Judgement
from tests.model.broker import Log

#: The steps of one start up to the loop, in order.
OWNER_STEPS = ("fence", "claim", "outcomes_end", "position", "take", "fold_events", "fold_outcomes")


@dataclass(frozen=True)
class Rules:
    """The rules. A test breaks a rule by replacing its function or flag."""

    judge: Callable[[Claim, Claim | None], Judgement] = claims.judge
    is_shard_idle: Callable[[str, Claim | None], bool] = claims.is_shard_idle
    is_inconsistency_real: Callable[[Claim, bool, Claim | None], bool] = claims.is_inconsistency_real
    terminal: Callable[[Claim | None, str], Claim | None] = claims.terminal_claim
    fold_event: Callable[[Aggregate, VersionedState | None, EventEnvelope], VersionedState] = fold_event
    is_caused_by_batch: Callable[[KafkaError], bool] = is_caused_by_batch
    steps: tuple[str, ...] = OWNER_STEPS
    read_end: Callable[[Log], int] = len  # offset up to which an owner reads a log: the high watermark
    position: Callable[[LogState], int] = position
    claims_first_undecided: bool = True  # False: the claim is committed with the group's offset
    applies_after_commit: bool = True
    shard_checks_token: bool = True
    shard_checks_positions: bool = True
    remembers_across_restarts: bool = True
    failed_record_prevents_commit: bool = True
    fence_is_no_takeover: bool = True

    def after(self, step: str) -> str:
        """Return the step after this step."""
        steps = (*self.steps, "loop")
        return steps[steps.index(step) + 1]
