"""The rule for projections and process managers that subscribe to events with personal fields.

They copy personal values to places where deleting the key does not erase them. So a subscription to an event with
personal fields must include `Erased`. `Erased` comes once, in the same partition, after the events that it erases.
"""

from collections.abc import Collection

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.personal.personal_fields import personal_fields

_MAX_NAMED = 3  # the maximal number of events that an error names


def check_subscription(
    events: Collection[type[Event]], aggregates: Collection[Aggregate], keeps_personal: str | None = None
) -> None:
    """Check that a subscription to `events` of these aggregates includes `Erased` if, and only if, it may occur.

    `keeps_personal` is the author's reason to omit `Erased`. Raises `TypeError`, whose message contains the remedy.
    """
    if Erased in events and not any(aggregate.has_personal_fields for aggregate in aggregates):
        raise TypeError(
            "it subscribes to cqrs.Erased, but none of its aggregates has personal fields: remove it"
        )
    check_erasure(events, keeps_personal)


def check_erasure(events: Collection[type[Event]], keeps_personal: str | None = None) -> None:
    """Check that a subscription to `events` includes `Erased` if one of the events has personal fields.

    The test kit calls this function directly, because it does not know the aggregates of the events. For
    `keeps_personal` and the error see `check_subscription`.
    """
    if keeps_personal is not None and not (isinstance(keeps_personal, str) and keeps_personal.strip()):
        raise TypeError(
            f"keeps_personal must be the reason to keep personal values, found {keeps_personal!r:.100}"
        )
    if Erased in events or keeps_personal is not None:
        return
    personal_events = sorted(event_type.__name__ for event_type in events if personal_fields(event_type))
    if personal_events:
        unnamed_count = len(personal_events) - _MAX_NAMED
        more = f" and {unnamed_count} more" if unnamed_count > 0 else ""
        names = ", ".join(personal_events[:_MAX_NAMED])
        raise TypeError(
            f"personal fields are in {names}{more}: subscribe to cqrs.Erased, too, and"
            " then erase the values that were copied from the aggregate"
        )
