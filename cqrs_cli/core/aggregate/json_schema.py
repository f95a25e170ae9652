"""An aggregate's messages as JSON Schema (draft 2020-12)."""

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def message_classes(aggregate: Aggregate) -> dict[str, type[msgspec.Struct]]:
    """Every message of an aggregate by its class's name: commands, then events, then the state.

    Where a command and an event share a name, it is the command's.
    """
    known: dict[str, type[msgspec.Struct]] = {}
    for cls in (*aggregate.commands.values(), *aggregate.events.values(), aggregate.state):
        known.setdefault(cls.__name__, cls)
    return known


def about_aggregate(aggregate: Aggregate) -> str:
    """The docstring of the aggregate's module; empty without one."""
    return inspect.cleandoc(
        getattr(sys.modules.get(aggregate.decider.decide.__module__), "__doc__", "") or ""
    )


def aggregate_schema(aggregate: Aggregate) -> dict[str, Any]:
    """All messages: `commands` and `events` by wire type and the `state`, each a reference into `$defs`."""
    classes = [*aggregate.commands.values(), *aggregate.events.values(), aggregate.state]
    references, definitions = components(classes, "#/$defs/{name}")
    commands = len(aggregate.commands)
    return {
        "$schema": DIALECT,
        "title": aggregate.name,
        "description": about_aggregate(aggregate),
        "commands": dict(zip(aggregate.commands, references, strict=False)),
        "events": dict(zip(aggregate.events, references[commands:], strict=False)),
        "state": references[-1],
        "retired": sorted(aggregate.upcasters),
        "$defs": definitions,
    }


def message_schema(cls: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of one message's data."""
    (reference,), definitions = components([cls], "#/$defs/{name}")
    return {"$schema": DIALECT, **reference, "$defs": definitions}


def components(classes: Iterable[type], template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A reference for each class, and what the references lead to; `template` has the form of a reference."""
    references, definitions = msgspec.json.schema_components(classes, ref_template=template)
    return list(references), definitions
