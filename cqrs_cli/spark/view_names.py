"""The views of a project's topics: their names and the options of their reads. Pure."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.spark.options import SOURCE_KINDS


def state_view(aggregate: str) -> str:
    """Return the name of the view of an aggregate's states, which `cqrs sql` creates."""
    return f"{aggregate}_state"


def view_reads(aggregates: Iterable[Aggregate]) -> dict[str, dict[str, str]]:
    """Return the read options of each view: `order_events` for a topic, `order_Placed` for an event type.

    A type whose view would have the name of a topic view or of the state view (Spark ignores case) gets the suffix
    `_event`.
    """
    reads: dict[str, dict[str, str]] = {}
    for aggregate in aggregates:
        topics = {f"{aggregate.name}_{kind}": kind for kind in SOURCE_KINDS}
        for name, kind in topics.items():
            reads[name] = {"aggregate": aggregate.name, "topic": kind}
        taken = {name.lower() for name in (*topics, state_view(aggregate.name))}
        for cls in aggregate.events.values():
            name = f"{aggregate.name}_{cls.__name__}"
            name = f"{name}_event" if name.lower() in taken else name
            reads[name] = {"aggregate": aggregate.name, "type": cls.__name__}
    return reads
