"""The rule for projections and process managers that subscribe to events with personal fields.

They copy personal values to other places, where deleting the key erases nothing. So a subscription to an event with
personal fields must include `Erased`. `Erased` comes once, in the same partition, after the events that it erases.
"""

from collections.abc import Collection, Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.personal.personal_fields import personal_fields

_NAMED = 3  # the maximal number of events that an error names


def check_hearing(
    events: Collection[type[Event]], aggregates: Iterable[Aggregate], keeps_personal: str | None = None
) -> None:
    """Check that a subscription to `events` includes `Erased` if one of the events has personal fields.

    `keeps_personal` is the author's reason to omit `Erased`. Raises `TypeError`, whose message is the remedy.
    """
    if Erased in events and not any(one.has_personal_fields for one in aggregates):
        raise TypeError("it hears cqrs.Erased, and no aggregate whose events it hears has personal fields")
    if keeps_personal is not None and not (isinstance(keeps_personal, str) and keeps_personal.strip()):
        raise TypeError(f"keeps_personal says why personal values are kept, found {keeps_personal!r:.100}")
    if Erased in events or keeps_personal is not None:
        return
    marked = sorted(kind.__name__ for kind in events if personal_fields(kind))
    if marked:
        more = f" and {len(marked) - _NAMED} more" if len(marked) > _NAMED else ""
        raise TypeError(
            f"personal fields are in {', '.join(marked[:_NAMED])}{more}: hear cqrs.Erased, too, and erase then what was"
            " kept of the aggregate"
        )
