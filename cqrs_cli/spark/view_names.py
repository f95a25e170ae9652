"""The views of a project's topics: their names, and the reads behind them. Pure."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.spark.options import SOURCE_KINDS


def state_view(aggregate: str) -> str:
    """The name of the view of an aggregate's states, which `cqrs sql` makes."""
    return f"{aggregate}_state"


def view_reads(aggregates: Iterable[Aggregate]) -> dict[str, dict[str, str]]:
    """The options of the read behind each view: `order_events` and the like, and `order_Placed` for each type.

    A type that would be called as a topic or as the states (Spark ignores case) gets `_event` behind its name.
    """
    reads: dict[str, dict[str, str]] = {}
    for aggregate in aggregates:
        topics = {f"{aggregate.name}_{kind}": kind for kind in SOURCE_KINDS}
        for name, kind in topics.items():
            reads[name] = {"aggregate": aggregate.name, "topic": kind}
        taken = {one.lower() for one in (*topics, state_view(aggregate.name))}
        for cls in aggregate.events.values():
            name = f"{aggregate.name}_{cls.__name__}"
            name = f"{name}_event" if name.lower() in taken else name
            reads[name] = {"aggregate": aggregate.name, "type": cls.__name__}
    return reads
