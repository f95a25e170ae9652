"""The parameters of deciding besides code and log: settings, and limits of the topics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cqrs_cli.core.context import BatchContext, Payloads
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.personal.data_keys import KeyOf, no_key
from cqrs_cli.core.stored import DedupEntry


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """All parameters of decisions in a partition besides the code and the log. Owners, `whatif` and `send --dry-run`
    create their contexts from it, so equal commands get equal outcomes. No field has a default, so that callers cannot
    forget a field.
    """

    partition: int
    topic: str  # the commands topic
    topic_id: str
    partition_of: Callable[[bytes], int] | None  # key → its partition; None: not checked
    #: Key → the target partition that the key has moved to, or None. None in place of the function: no key has moved.
    heir_of: Callable[[bytes], int | None] | None
    window: int  # the dedup window, ms
    max_event_bytes: int
    limits: DeferralLimits
    payload_threshold: float

    def deferrals(
        self,
        view: Callable[[], DeferredView],
        active: bool,
        told: Mapping[int, Deferral] | None = None,
    ) -> Deferrals:
        """Return the deferred commands for one batch, on top of the entries in `view`."""
        return Deferrals(view, self.topic_id, self.partition, self.limits, active, told)

    def context(
        self,
        state: Callable[[str], VersionedState | None],
        remembered: Callable[[str, str], DedupEntry | None],
        now: Callable[[], int],
        clock: int,
        deferrals: Deferrals,
        payloads: Payloads,
        refused: frozenset[int] = frozenset(),
        blamed: Mapping[int, str] | None = None,
        key_of: KeyOf = no_key,
    ) -> BatchContext:
        """Return the context of one batch; `BatchContext` documents the parameters."""
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
