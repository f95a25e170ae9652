"""Folds logged events into the store of a simulation, with the current or the changed code."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.proof.whatif.decided import HistoryError, OwnerRecord


class FoldedStates:
    """Folds events on top of the states in a cache's store. `flush` writes the changed states to the store.

    Many events change the same aggregates again. So states are not encoded for each batch, but only in `flush`.
    """

    def __init__(self, aggregate: Aggregate, cache: StateCache) -> None:
        self._aggregate, self._cache = aggregate, cache
        self._changed: dict[str, VersionedState] = {}

    def fold(self, events: Iterable[OwnerRecord[EventEnvelope]]) -> None:
        """Fold events; raise `HistoryError` for an event that cannot be folded. Call `flush` after the last event."""
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
        """Write the changed states to the store."""
        self._cache.fold(self._cache.positions, self._changed)
        self._changed = {}
