"""The rule for projections and processes that hear aggregates with personal fields.

They write what they hear elsewhere, where no key erases it. So who hears a personal field hears `Erased`, too: it comes
behind what it erases, in the same partition, once.
"""

from collections.abc import Collection, Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.personal.marks import personal_fields

_NAMED = 3  # events in a message


def check_hearing(
    events: Collection[type[Event]], aggregates: Iterable[Aggregate], keeps_personal: str | None = None
) -> None:
    """Check that `events` of these aggregates have `Erased` if any has personal fields.

    `keeps_personal` says why it need not be. Raises `TypeError` with what to write.
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
