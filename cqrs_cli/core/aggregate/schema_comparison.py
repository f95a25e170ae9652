"""Compares two JSON Schemas of a message, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from cqrs_cli.core.aggregate.json_schema import PERSONAL, alternatives
from cqrs_cli.core.aggregate.schema import ITEM_NAMES

Schema = Mapping[str, Any]

#: Keywords that contain other schemas or values, and are compared on their own.
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


#: The shapes (type, format) of a type, and of a wider type that includes all its values.
_WIDENED_SHAPES = (("integer", ""), ("number", ""))


class Difference(NamedTuple):
    """A difference at a field; `path` is its path, such as `lines[].price`. Every kind except `wider` breaks existing
    messages.

    `gone`: the field was removed. `required`: it has no default. `value`: an enum lost a value. `type`: its type
    changed. `unmarked`: it is no longer personal. `wider`: it accepts more values than before.
    """

    path: str
    kind: Literal["gone", "required", "value", "type", "unmarked", "wider"]
    description: str


class Comparison:
    """The comparison of two contracts with their `$defs`: the committed contract, and the current code's contract."""

    def __init__(self, before: Schema, current: Schema) -> None:
        self._before, self._current = before.get("$defs", {}), current.get("$defs", {})
        self._seen: set[tuple[str, str]] = set()

    def differences(self, old: Schema, new: Schema, path: str = "") -> Iterator[Difference]:
        """Yield all differences between a schema of the old document and a schema of the new document."""
        pair = (old.get("$ref", ""), new.get("$ref", ""))
        if all(pair):
            if pair in self._seen:  # a type that contains itself
                return
            self._seen.add(pair)
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
            same_kind_alternatives = [
                candidate for candidate in remaining if self._have_same_kind(old, candidate)
            ]
            if not same_kind_alternatives:
                yield Difference(path, "type", f"can no longer be {_spell(_resolved(old, self._before))}")
                continue
            match = next(
                (candidate for candidate in same_kind_alternatives if candidate == old),
                same_kind_alternatives[0],
            )
            remaining.remove(match)
            yield from self.differences(old, match, path)
        for candidate in remaining:
            yield Difference(path, "wider", f"may now be {_spell(_resolved(candidate, self._current))}")

    def _have_same_kind(self, old: Schema, new: Schema) -> bool:
        shapes = _shape(_resolved(old, self._before)), _shape(_resolved(new, self._current))
        return shapes[0] == shapes[1] or shapes == _WIDENED_SHAPES

    def _compare_same_shape(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        if "properties" in old or "properties" in new:
            yield from self._compare_objects(old, new, path)
        for keyword, suffix in (("items", "[]"), ("additionalProperties", "[KEY]")):
            if isinstance(old.get(keyword), Mapping) and isinstance(new.get(keyword), Mapping):
                yield from self.differences(old[keyword], new[keyword], f"{path}{suffix}")
        pairs = (old.get("prefixItems", ()), new.get("prefixItems", ()))
        if len(pairs[0]) != len(pairs[1]):
            yield Difference(path, "type", f"had {len(pairs[0])} items, has {len(pairs[1])}")
        before, current = old.get(ITEM_NAMES), new.get(ITEM_NAMES)
        if before and current and before != current:  # an earlier contract may lack the names
            yield Difference(path, "type", f"had the items {', '.join(before)}, has {', '.join(current)}")
        for number, (old_item, new_item) in enumerate(zip(*pairs, strict=False)):
            yield from self.differences(old_item, new_item, f"{path}[{number}]")
        yield from _compare_limits(old, new, path)

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


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _shape(schema: Schema) -> tuple[str, str]:
    kind = "enum" if _values(schema) is not None else ""
    return str(schema.get("type", kind)), str(schema.get("format", ""))


def _spell(schema: Schema) -> str:
    if (values := _values(schema)) is not None:
        return " | ".join(map(repr, values))
    kind, form = _shape(schema)
    return f"{kind or 'anything'} ({form})" if form else kind or "anything"


def _member_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
