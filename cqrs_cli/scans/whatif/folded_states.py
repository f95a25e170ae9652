"""The aggregates as folded from logged events with one code, for a simulation."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.proof.whatif.decided import HistoryError, OwnerRecord


class FoldedStates:
    """The states in the store of a cache, and the changes of the latest events, which `flush` applies to the store.

    Most batches change the same aggregates again, so few states are encoded.
    """

    def __init__(self, aggregate: Aggregate, cache: StateCache) -> None:
        self._aggregate, self._cache = aggregate, cache
        self._changed: dict[str, VersionedState] = {}

    def fold(self, events: Iterable[OwnerRecord[EventEnvelope]]) -> None:
        """Fold events; raise `HistoryError` for an event that cannot be folded."""
        changed, cache = self._changed, self._cache
        with cache.reading():
            for event_record in events:
                event = event_record.message
                try:
                    before = changed.get(event.subject) or cache.state(event.subject)
                    changed[event.subject] = fold_event(self._aggregate, before, event)
                except FoldError as error:
                    raise HistoryError("events", event_record.record.offset, str(error)) from error
        if len(changed) >= cache.max_waiting_states:
            self.flush()

    def flush(self) -> None:
        """Apply the changes to the store."""
        self._cache.fold(self._cache.positions, self._changed)
        self._changed = {}
