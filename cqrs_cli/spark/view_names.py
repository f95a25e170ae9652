"""Names the views of a project's topics, and returns the options with which each view is read."""

from collections.abc import Iterable

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.spark.options import SOURCE_KINDS


def state_view(aggregate: str) -> str:
    """Return the name of the view of an aggregate's states, which `cqrs sql` creates."""
    return f"{aggregate}_state"


def view_reads(aggregates: Iterable[Aggregate]) -> dict[str, dict[str, str]]:
    """Return the read options of each view: `order_events` for a topic, `order_Placed` for an event type.

    A type whose view would have the name of another view (Spark ignores case) gets the suffix `_event`.
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
    """Return unique names, none of which is in `taken_names` (in lower case). Case is ignored, as in Spark.

    The first of several equal names is kept if it is not taken. Any other name is put into the template `data_{}`,
    or another such `template`, as often as necessary to become unique.
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
