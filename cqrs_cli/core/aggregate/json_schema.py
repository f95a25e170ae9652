"""The messages of an aggregate as JSON Schema (draft 2020-12)."""

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.schema import definition_name, schema_components
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: The keyword of personal fields; its value `{"erased": …}` contains the redacted value.
PERSONAL = "x-personal"


def message_classes(aggregate: Aggregate) -> dict[str, type[msgspec.Struct]]:
    """Return every message of an aggregate by the name of its class: commands, then events, then the state.

    If a command and an event have the same name, the result has only the command.
    """
    classes: dict[str, type[msgspec.Struct]] = {}
    for cls in (*aggregate.commands.values(), *aggregate.events.values(), aggregate.state):
        classes.setdefault(cls.__name__, cls)
    return classes


def module_docstring(aggregate: Aggregate) -> str:
    """Return the docstring of the aggregate's module; empty without a docstring."""
    module = sys.modules.get(aggregate.decider.decide.__module__)
    return inspect.cleandoc((module and module.__doc__) or "")


def aggregate_schema(aggregate: Aggregate) -> dict[str, Any]:
    """Return the schema of all messages. `commands` and `events` (by wire type) and `state` refer to `$defs`."""
    classes = [*aggregate.commands.values(), *aggregate.events.values(), aggregate.state]
    references, definitions = components(classes, "#/$defs/{name}")
    command_count = len(aggregate.commands)
    return {
        "$schema": DIALECT,
        "title": aggregate.name,
        "description": module_docstring(aggregate),
        "commands": dict(zip(aggregate.commands, references, strict=False)),
        "events": dict(zip(aggregate.events, references[command_count:], strict=False)),
        "state": references[-1],
        "retired": sorted(aggregate.upcasters),  # the events with an upcaster
        "$defs": definitions,
    }


def message_schema(cls: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a message's data."""
    (reference,), definitions = components([cls], "#/$defs/{name}")
    return {"$schema": DIALECT, **reference, "$defs": definitions}


def components(
    classes: Iterable[type[msgspec.Struct]], template: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a reference for each class, and the definitions by name; `template` is the form of a reference.

    The schemas are msgspec's, with three additions. Times have a `format`, which msgspec omits if the type permits
    naive times. Personal fields have the keyword `x-personal`. Objects that occur only in commands forbid unknown
    fields, as commands do.
    """
    classes = list(classes)
    references, definitions = schema_components(classes, template)
    visited: set[str] = set()
    for cls, reference in zip(classes, references, strict=True):
        node = tree_of(cls)
        _add_time_formats(node, reference, definitions, visited)
        for field in node.personal_fields:
            field_schema = definitions[definition_name(reference["$ref"], definitions)]["properties"][
                field.wire_name
            ]
            field_schema[PERSONAL] = {"erased": msgspec.json.decode(field.redacted_json)}
    _forbid_unknown_fields(classes, references, definitions)
    return list(references), definitions


def _forbid_unknown_fields(
    classes: list[type[msgspec.Struct]], references: Iterable[Any], definitions: dict[str, Any]
) -> None:
    """Forbid unknown fields in all objects that are reachable only from classes which forbid them."""
    strict, shared = set[str](), set[str]()
    for cls, reference in zip(classes, references, strict=True):
        _collect_references(
            reference, definitions, strict if cls.__struct_config__.forbid_unknown_fields else shared
        )
    for name in strict - shared:
        if "properties" in definitions[name]:
            definitions[name]["additionalProperties"] = False


def _collect_references(schema: Any, definitions: dict[str, Any], reached: set[str]) -> None:
    """Add the names of all definitions that a schema refers to, directly or indirectly."""
    if isinstance(schema, list):
        for part in schema:
            _collect_references(part, definitions, reached)
    elif isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            name = definition_name(reference, definitions)
            if name not in reached:
                reached.add(name)
                _collect_references(definitions[name], definitions, reached)
        for part in schema.values():
            _collect_references(part, definitions, reached)


def _add_time_formats(node: TypeNode, schema: Any, definitions: dict[str, Any], visited: set[str]) -> None:
    """Add `format` to the schema of each time, in a parallel walk through type and schema."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = definition_name(schema["$ref"], definitions)
        if name in visited:
            return
        visited.add(name)
        schema = definitions[name]
    if isinstance(node.msgspec_type, msgspec_types.DateTimeType):
        schema["format"] = "date-time"
    elif node.form == "union":
        for member, member_type in zip(node.parts, node.msgspec_type.types, strict=True):
            if isinstance(member_type, msgspec_types.Metadata):
                continue  # a member with a description gets no format: committed contracts have none
            for alternative in filter(partial(_is_schema_of, member), alternatives(schema)):
                _add_time_formats(member, alternative, definitions, visited)
    else:
        for part, part_schema in _parts(node, schema):
            _add_time_formats(part, part_schema, definitions, visited)


def alternatives(schema: Mapping[str, Any]) -> list[Any]:
    """Return the members of a union schema, else the schema itself. msgspec nests tagged members as an inner union."""
    if "anyOf" not in schema:
        return [schema]
    return [alternative for member in schema["anyOf"] for alternative in alternatives(member)]


def _is_schema_of(member: TypeNode, alternative: dict[str, Any]) -> bool:
    """True if `alternative` is the schema of the union member `member`.

    Comparing the JSON types is enough, because a union has at most one time, one list and one dict.
    """
    json_type, reference = alternative.get("type"), alternative.get("$ref", "")
    if isinstance(member.msgspec_type, msgspec_types.DateTimeType):
        return bool(json_type == "string")
    if member.form == "dict":
        return bool(json_type == "object")
    if reference:
        name = getattr(getattr(member.msgspec_type, "cls", None), "__name__", "")
        return bool(name == reference.rpartition("/")[2].rpartition(".")[2])
    return json_type == "array" and member.form in ("list", "set", "tuple")


def _parts(node: TypeNode, schema: dict[str, Any]) -> Iterator[tuple[TypeNode, Any]]:
    """Yield the direct parts of a type, each with its schema."""
    match node.form:
        case "list" | "set":
            yield node.parts[0], schema.get("items")
        case "dict":
            yield node.parts[1], schema.get("additionalProperties")
        case _:
            for field, field_type in node.fields:
                yield field_type, schema.get("properties", {}).get(field.encode_name)
            types = list(node.child_nodes())
            items = schema.get("prefixItems", ())  # an array-like object has its tag before its fields
            yield from zip(types, items[len(items) - len(types) :], strict=False)
