"""The names of a project's views, and the read options of each view."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.spark.options import SOURCE_KINDS


def state_view(aggregate: str) -> str:
    """Return the name of the view of an aggregate's states, which `cqrs sql` creates."""
    return f"{aggregate}_state"


def view_reads(aggregates: Iterable[Aggregate]) -> dict[str, dict[str, str]]:
    """Return view → read options. Views are named `order_events` for a topic, and `order_Placed` for an event type.

    If two views would have the same name (Spark ignores case), the view of an event type gets the suffix `_event`.
    """
    aggregates = list(aggregates)
    reads: dict[str, dict[str, str]] = {}
    taken: set[str] = set()
    for aggregate in aggregates:
        topics = {f"{aggregate.name}_{kind}": kind for kind in SOURCE_KINDS}
        for name, kind in topics.items():
            reads[name] = {"aggregate": aggregate.name, "topic": kind}
        taken |= {name.lower() for name in (*topics, state_view(aggregate.name))}
    types = [(aggregate.name, cls.__name__) for aggregate in aggregates for cls in aggregate.events.values()]
    names = distinct_names([f"{owner}_{type}" for owner, type in types], taken, "{}_event")
    for name, (owner, type) in zip(names, types, strict=True):
        reads[name] = {"aggregate": owner, "type": type}
    return reads


def distinct_names(names: Iterable[str], taken_names: Iterable[str], template: str) -> list[str]:
    """Return the names, changed so that they are unique and not in `taken_names` (lower case). Case is ignored.

    The first of several equal names is kept if it is not taken. Other names are inserted into `template`, such as
    `data_{}`, once or several times, until they are unique.
    """
    names, used_names = list(names), set(taken_names)
    unchanged: set[int] = set()  # indexes of the names that stay as they are
    for number, name in enumerate(names):
        if name.lower() not in used_names:
            used_names.add(name.lower())
            unchanged.add(number)
    for number, name in enumerate(names):
        if number in unchanged:
            continue
        while name.lower() in used_names:
            name = template.format(name)
        used_names.add(name.lower())
        names[number] = name
    return names
