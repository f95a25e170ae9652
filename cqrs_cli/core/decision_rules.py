"""The parameters of decisions that come from the settings and the topics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cqrs_cli.core.context import BatchContext, DataKeyOf, Payloads
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.stored import NO_BOUND, DedupEntry


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """All parameters of decisions in a partition besides the code and the log. Owners, `whatif` and `send --dry-run`
    create their contexts from these rules, so equal commands get equal outcomes. No field has a default, so that
    callers cannot forget a field.
    """

    partition: int
    topic: str  # the commands topic
    topic_id: str  # of the commands topic
    partition_of: Callable[[bytes], int] | None  # key → its partition; None: not checked
    #: Key → the child partition that the key has moved to, or None. None in place of the function: no key has moved.
    forward_target_of: Callable[[bytes], int | None] | None
    dedup_window: int  # the dedup window, ms
    max_event_bytes: int  # limit of one event record: value, key and headers
    limits: DeferralLimits
    payload_threshold: float  # event data with more bytes become a payload

    def deferrals(
        self,
        view: Callable[[], DeferredView],
        active: bool,
        resubmitted: Mapping[int, Deferral] | None = None,
    ) -> Deferrals:
        """Return the deferred commands for one batch, on top of the entries in `view`."""
        return Deferrals(view, self.topic_id, self.partition, self.limits, active, resubmitted)

    def batch_context(
        self,
        state_of: Callable[[str], VersionedState | None],
        dedup_entry_of: Callable[[str, str], DedupEntry | None],
        now: Callable[[], int],
        clock: int,
        deferrals: Deferrals,
        payloads: Payloads,
        force_failed: frozenset[int] = frozenset(),
        poison_reasons: Mapping[int, str] | None = None,
        data_key_of: DataKeyOf | None = None,
        greatest_id: Callable[[], str] = lambda: NO_BOUND,
    ) -> BatchContext:
        """Return the context of one batch; `BatchContext` documents the parameters."""
        return BatchContext(
            self.partition,
            state_of,
            dedup_entry_of,
            now,
            self.partition_of,
            self.topic,
            self.dedup_window,
            clock,
            self.max_event_bytes,
            force_failed,
            poison_reasons or {},
            deferrals,
            payloads,
            self.payload_threshold,
            forward_target_of=self.forward_target_of,
            data_key_of=data_key_of,
            greatest_id=greatest_id,
        )
