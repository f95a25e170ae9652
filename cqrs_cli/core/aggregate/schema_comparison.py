"""Compares two JSON Schemas of a message, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from cqrs_cli.core.aggregate.json_schema import PERSONAL, alternatives
from cqrs_cli.core.aggregate.schema import ITEM_NAMES

Schema = Mapping[str, Any]

#: Keywords that `_compare_limits` ignores, because other functions compare their schemas or values.
_STRUCTURE = {
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalProperties",
    "anyOf",
    "enum",
    "const",
}


#: The shape (type, format) of a narrow type, and the shape of the wider type that includes all its values.
_WIDENED_SHAPES = (("integer", ""), ("number", ""))


class Difference(NamedTuple):
    """A difference at a field; `path` is its path, such as `lines[].price`. Every kind except `wider` breaks existing
    messages.

    `gone`: the field was removed. `required`: the field has no default. `value`: an enum lost a value. `type`: the
    field's type changed. `unmarked`: the field is no longer personal. `wider`: it accepts more values than before.
    """

    path: str
    kind: Literal["gone", "required", "value", "type", "unmarked", "wider"]
    description: str


class Comparison:
    """The comparison of two contracts with their `$defs`: the committed contract, and the current code's contract."""

    def __init__(self, before: Schema, current: Schema) -> None:
        self._before, self._current = before.get("$defs", {}), current.get("$defs", {})
        self._compared_references: set[tuple[str, str]] = set()

    def differences(self, old: Schema, new: Schema, path: str = "") -> Iterator[Difference]:
        """Yield all differences between a schema of the old document and a schema of the new document."""
        pair = (old.get("$ref", ""), new.get("$ref", ""))
        if all(pair):
            if pair in self._compared_references:  # a type that contains itself
                return
            self._compared_references.add(pair)
        old, new = _resolved(old, self._before), _resolved(new, self._current)
        old_alternatives, new_alternatives = alternatives(old), alternatives(new)
        if len(old_alternatives) > 1 or len(new_alternatives) > 1:
            yield from self._compare_unions(old_alternatives, new_alternatives, path)
        elif _values(old) is not None and _values(new) is not None:
            yield from _compare_enums(_values(old) or [], _values(new) or [], path)
        elif _shape(old) != _shape(new):
            wider = (_shape(old), _shape(new)) == _WIDENED_SHAPES
            yield Difference(path, "wider" if wider else "type", f"was {_spell(old)}, is {_spell(new)}")
        else:
            yield from self._compare_same_shape(old, new, path)

    def _compare_unions(
        self, old_alternatives: list[Schema], new_alternatives: list[Schema], path: str
    ) -> Iterator[Difference]:
        """Compare two unions: each old alternative needs a new alternative of the same shape."""
        remaining = list(new_alternatives)
        for old in old_alternatives:
            same_type_alternatives = [
                candidate for candidate in remaining if self._have_same_type(old, candidate)
            ]
            if not same_type_alternatives:
                yield Difference(path, "type", f"can no longer be {_spell(_resolved(old, self._before))}")
                continue
            match = next(
                (candidate for candidate in same_type_alternatives if candidate == old),
                same_type_alternatives[0],
            )
            remaining.remove(match)
            yield from self.differences(old, match, path)
        for candidate in remaining:
            yield Difference(path, "wider", f"may now be {_spell(_resolved(candidate, self._current))}")

    def _have_same_type(self, old: Schema, new: Schema) -> bool:
        """True if type and format are equal, or if the new type is wider."""
        shapes = _shape(_resolved(old, self._before)), _shape(_resolved(new, self._current))
        return shapes[0] == shapes[1] or shapes == _WIDENED_SHAPES

    def _compare_same_shape(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        if "properties" in old or "properties" in new:
            yield from self._compare_objects(old, new, path)
        for keyword, suffix in (("items", "[]"), ("additionalProperties", "[KEY]")):
            if isinstance(old.get(keyword), Mapping) and isinstance(new.get(keyword), Mapping):
                yield from self.differences(old[keyword], new[keyword], f"{path}{suffix}")
        if "prefixItems" in old or "prefixItems" in new:
            yield from self._compare_items(old, new, path)
        yield from _compare_limits(old, new, path)

    def _compare_items(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        """Compare two tuples or named tuples. A named tuple may get items with defaults at its end."""
        old_items, new_items = old.get("prefixItems", ()), new.get("prefixItems", ())
        added = new_items[len(old_items) :]
        old_required, new_required = _required_items(old), _required_items(new)
        before, current = old.get(ITEM_NAMES), new.get(ITEM_NAMES)
        if len(old_items) > len(new_items) or (added and new_required > len(old_items)):
            yield Difference(path, "type", f"had {len(old_items)} items, has {len(new_items)}")
        # An earlier contract may lack the names.
        elif before and current and before != current[: len(before)]:
            yield Difference(path, "type", f"had the items {', '.join(before)}, has {', '.join(current)}")
        elif added:
            yield Difference(path, "wider", f"had {len(old_items)} items, has {len(new_items)}")
        if old_required < new_required <= len(old_items):
            yield Difference(path, "required", f"needs {new_required} items, needed {old_required}")
        elif new_required < old_required and len(new_items) >= len(old_items):
            yield Difference(path, "wider", f"needs {new_required} items, needed {old_required}")
        for number, (old_item, new_item) in enumerate(zip(old_items, new_items, strict=False)):
            yield from self.differences(old_item, new_item, f"{path}[{number}]")

    def _compare_objects(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        before, current = old.get("properties", {}), new.get("properties", {})
        removed, added = sorted(before.keys() - current.keys()), sorted(current.keys() - before.keys())
        renamed = len(removed) == len(added) == 1 and before[removed[0]] == current[added[0]]
        for name in removed:
            description = "is gone" + (f" (renamed to {added[0]}?)" if renamed else "")
            yield Difference(_member_path(path, name), "gone", description)
        for name in added:
            required = name in new.get("required", ())
            description = "is new and has no default" if required else "is new"
            yield Difference(_member_path(path, name), "required" if required else "wider", description)
        for name in sorted(before.keys() & current.keys()):
            yield from _compare_annotations(before[name], current[name], _member_path(path, name))
            yield from self.differences(before[name], current[name], _member_path(path, name))
            yield from _compare_defaults(name, old, new, _member_path(path, name))


def _compare_annotations(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    before, current = old.get(PERSONAL), new.get(PERSONAL)
    if before and not current:
        yield Difference(path, "unmarked", "is no longer personal")
    elif current and not before:
        yield Difference(path, "wider", "is personal now: older records keep the plain value")
    elif before and current and before != current:
        description = f"is {current['erased']!r} when it is erased, it was {before['erased']!r}"
        yield Difference(path, "wider", description)


def _compare_defaults(name: str, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    before, current = old["properties"][name], new["properties"][name]
    if name in new.get("required", ()) and name not in old.get("required", ()):
        yield Difference(path, "required", "has lost its default")
    elif name in old.get("required", ()) and name not in new.get("required", ()):
        yield Difference(path, "wider", "has a default now")
    elif before.get("default") != current.get("default"):
        description = f"has the default {current.get('default')!r}, it was {before.get('default')!r}"
        yield Difference(path, "wider", description)


def _compare_limits(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    """Compare limits like `minimum`: a removed limit is wider, a new or changed limit may reject old values."""
    ignored = {*_STRUCTURE, "type", "format", "default", PERSONAL, ITEM_NAMES}
    if "prefixItems" in old or "prefixItems" in new:
        ignored |= {"minItems", "maxItems"}  # `_compare_items` compares them
    before = {key: value for key, value in old.items() if key not in ignored}
    current = {key: value for key, value in new.items() if key not in ignored}
    if before != current:
        kind: Literal["wider", "type"] = "wider" if current.items() <= before.items() else "type"
        yield Difference(path, kind, f"had {before or 'no limits'}, has {current or 'none'}")


def _compare_enums(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    for value in old:
        if value not in new:
            yield Difference(path, "value", f"can no longer be {value!r}")
    for value in new:
        if value not in old:
            yield Difference(path, "wider", f"may now be {value!r}")


def _required_items(schema: Schema) -> int:
    """Return the number of items of a tuple that have no default."""
    required: int = schema.get("minItems", 0)
    return required


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _shape(schema: Schema) -> tuple[str, str]:
    """Return type and format of a schema: `("string", "date-time")`, `("enum", "")`."""
    default_type = "enum" if _values(schema) is not None else ""
    return str(schema.get("type", default_type)), str(schema.get("format", ""))


def _spell(schema: Schema) -> str:
    if (values := _values(schema)) is not None:
        return " | ".join(map(repr, values))
    json_type, json_format = _shape(schema)
    return f"{json_type or 'anything'} ({json_format})" if json_format else json_type or "anything"


def _member_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
