"""The rules of deciding that are neither code nor log: settings, and what the topics take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cqrs_cli.core.context import BatchContext, Payloads
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.personal.data_keys import KeyOf, no_key
from cqrs_cli.core.stored import DedupEntry


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """All that decides in a partition besides the code and the log. Owners, `whatif` and `send --dry-run` make their
    contexts of it, so the same commands come to the same outcomes. No field has a default: nobody can forget one.
    """

    partition: int
    topic: str  # of the commands
    topic_id: str
    partition_of: Callable[[bytes], int] | None  # where a key hashes to; None: not checked
    #: The partition that a key which was ours has moved to; None: nothing has moved.
    heir_of: Callable[[bytes], int | None] | None
    window: int  # how long an id is remembered, ms
    max_event_bytes: int
    limits: DeferralLimits
    payload_threshold: float

    def deferrals(
        self,
        view: Callable[[], DeferredView],
        active: bool,
        told: Mapping[int, Deferral] | None = None,
    ) -> Deferrals:
        """The deferred commands of one batch, over those that `view` has."""
        return Deferrals(view, self.topic_id, self.partition, self.limits, active, told)

    def context(
        self,
        state: Callable[[str], Folded | None],
        remembered: Callable[[str, str], DedupEntry | None],
        now: Callable[[], int],
        clock: int,
        deferrals: Deferrals,
        payloads: Payloads,
        refused: frozenset[int] = frozenset(),
        blamed: Mapping[int, str] | None = None,
        key_of: KeyOf = no_key,
    ) -> BatchContext:
        """The context of one batch; docs of the parameters are there."""
        return BatchContext(
            self.partition,
            state,
            remembered,
            now,
            self.partition_of,
            self.topic,
            self.window,
            clock,
            self.max_event_bytes,
            refused,
            blamed or {},
            deferrals,
            payloads,
            self.payload_threshold,
            heir_of=self.heir_of,
            key_of=key_of,
        )
