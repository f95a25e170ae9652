"""Converts JSON Schema to Avro (specification 1.12), for `cqrs describe`.

Times, decimals and UUIDs remain texts, as they are in JSON, with their `format` as an attribute. An untyped value is
written as the text of its JSON (format `json`). A name that Avro forbids is replaced; `jsonName` has the name in JSON.
"""

from typing import Any

from cqrs_cli.core.aggregate.json_shape import JsonShape, identifiers, shape_of

_SCALARS = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_DEFAULTS = {type(None): "null", bool: "boolean", int: "long", float: "double", str: "string"}


def avro_schema(document: dict[str, Any], namespace: str) -> Any:
    """Return the Avro schema of a JSON Schema with `$defs`: a record, or the union of the records in its `anyOf`."""
    schema = _AvroWriter(document["$defs"], namespace).type_of(shape_of(document, document["$defs"]))
    return [schema] if isinstance(schema, dict) and "anyOf" in document else schema


class _AvroWriter:
    """Writes types; the first use of a record contains its fields, later uses contain its name."""

    def __init__(self, definitions: dict[str, Any], namespace: str) -> None:
        self._definitions, self._namespace = definitions, namespace
        self._names = identifiers(definitions)
        self._written: set[str] = set()

    def type_of(self, shape: JsonShape) -> Any:
        """Return the type of a shape: a union if several types are possible."""
        return _single_or_union(self._branches(shape))

    def _branches(self, shape: JsonShape) -> list[Any]:
        if shape.anything:
            return [{"type": "string", "format": "json"}]
        branches: list[Any] = ["null"] if shape.nullable else []
        for scalar in shape.scalars:
            has_format = scalar == "string" and shape.text_format
            branches.append(
                {"type": "string", "format": shape.text_format} if has_format else _SCALARS[scalar]
            )
        if shape.items is not None:
            branches.append({"type": "array", "items": self.type_of(shape.items)})
        if shape.values is not None:
            branches.append({"type": "map", "values": self.type_of(shape.values)})
        return branches + [self._record(name) for name in shape.objects] or ["null"]

    def _record(self, name: str) -> Any:
        full_name = f"{self._namespace}.{self._names[name]}"
        if name in self._written:
            return full_name
        self._written.add(name)
        definition = self._definitions[name]
        required = definition.get("required", ())
        names = identifiers(definition["properties"])
        fields = [
            self._field(names[field], field, schema, field in required)
            for field, schema in definition["properties"].items()
        ]
        return {"type": "record", "name": full_name, **_doc(definition), "fields": fields}

    def _field(self, name: str, json_name: str, schema: Any, required: bool) -> dict[str, Any]:
        branches = self._branches(shape_of(schema, self._definitions))
        default: dict[str, Any] = {}
        if not required:
            value = schema.get("default", ...)
            index = _index_of_default(value, branches)
            if index is None:
                value, branches = None, ["null", *(branch for branch in branches if branch != "null")]
            else:
                branches.insert(0, branches.pop(index))  # Avro takes the default's type from the first branch
            default = {"default": float(value) if branches[0] == "double" else value}
        renamed = {} if name == json_name else {"jsonName": json_name}
        return {"name": name, "type": _single_or_union(branches), **default, **_doc(schema), **renamed}


def _single_or_union(branches: list[Any]) -> Any:
    return branches[0] if len(branches) == 1 else branches


def _index_of_default(value: Any, branches: list[Any]) -> int | None:
    """Return the index of the branch with the type of a default; None if Avro cannot express the default."""
    if type(value) in _DEFAULTS:
        type_names = {_DEFAULTS[type(value)]} | ({"double"} if isinstance(value, int | float) else set())
    else:
        type_names = {"array"} if value == [] else {"map"} if value == {} else set()
    for index, branch in enumerate(branches):
        name = branch["type"] if isinstance(branch, dict) else branch
        if name in type_names and branch != {"type": "string", "format": "json"}:
            return index
    return None


def _doc(schema: dict[str, Any]) -> dict[str, str]:
    return {"doc": schema["description"]} if "description" in schema else {}
