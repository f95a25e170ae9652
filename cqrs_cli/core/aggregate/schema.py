"""Checks the field types of an aggregate's messages for their form in JSON, and computes the schema digest."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.errors import InvalidAggregate
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.core.messages.json import encode_json

_NO_JSON = (msgspec_types.CustomType, msgspec_types.ExtType, msgspec_types.RawType)
#: Types whose values may be NaN, infinite, or a time without an offset. A value of `AnyType` has any type.
_INEXACT = (
    msgspec_types.FloatType,
    msgspec_types.DecimalType,
    msgspec_types.DateTimeType,
    msgspec_types.AnyType,
)
_NEVER_OBJECTS = (
    msgspec_types.NoneType,
    msgspec_types.BoolType,
    msgspec_types.IntType,
    msgspec_types.FloatType,
    msgspec_types.DecimalType,
    msgspec_types.StrType,
    msgspec_types.BytesType,
    msgspec_types.DateTimeType,
    msgspec_types.DateType,
    msgspec_types.TimeType,
    msgspec_types.TimeDeltaType,
    msgspec_types.UUIDType,
    msgspec_types.EnumType,
    msgspec_types.LiteralType,
    msgspec_types.ListType,
    msgspec_types.VarTupleType,
    msgspec_types.TupleType,
    msgspec_types.SetType,
    msgspec_types.FrozenSetType,
)
#: The members of a JSON Schema that are only for human readers.
_PROSE = ("title", "description", "examples")


def require_json(cls: type[msgspec.Struct]) -> None:
    """Raise `InvalidAggregate` for a class with a field that has no form in JSON."""
    try:
        fields = get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError) as error:
        raise InvalidAggregate(f"the annotations of {cls.__name__} cannot be read: {error}", cls) from error
    for field in cls.__struct_fields__:
        try:
            parts = [part.msgspec_type for part in tree_of(fields[field]).all_nodes()]
        except Exception as error:  # msgspec raises various exceptions for types that it cannot describe
            raise InvalidAggregate(f"{cls.__name__}.{field} has no form in JSON: {error}", cls) from error
        for part in parts:
            if isinstance(part, _NO_JSON):
                raise InvalidAggregate(f"{cls.__name__}.{field} has no form in JSON: {_type_name(part)}", cls)
            if isinstance(part, msgspec_types.DictType) and not isinstance(
                part.key_type, msgspec_types.StrType
            ):
                raise InvalidAggregate(
                    f"{cls.__name__}.{field} is a dict with keys that are not strings, which JSON cannot express",
                    cls,
                )


def require_explicit_defaults(cls: type[msgspec.Struct]) -> None:
    """Raise `InvalidAggregate` for an event or a state whose JSON may lack values that equal their defaults.

    If the default changed later, such stored JSON would be read with the new default. If a class has `omit_defaults`,
    msgspec omits every value that equals its default. If the objects of a dataclass have a `__dict__`, msgspec omits
    the values that were not passed to the constructor.
    """
    for part in (node.msgspec_type for node in tree_of(cls).all_nodes()):
        if isinstance(part, msgspec_types.StructType) and part.cls.__struct_config__.omit_defaults:
            raise InvalidAggregate(
                f"{part.cls.__name__} has omit_defaults: a new default would change the meaning of stored "
                f"{cls.__name__} objects",
                part.cls,
            )
        if isinstance(part, msgspec_types.DataclassType) and part.cls.__dictoffset__:
            for field in part.fields:
                if field.default is not msgspec.NODEFAULT:
                    raise InvalidAggregate(
                        f"{part.cls.__name__}.{field.name} has a default, which the JSON of {cls.__name__} omits "
                        "unless it is passed: write `@dataclass(frozen=True, slots=True)`",
                        part.cls,
                    )


def may_be_inexact(classes: Iterable[type]) -> bool:
    """True if a value of these types can contain a number that is not finite, or a time without an offset."""
    return any(
        isinstance(part.msgspec_type, _INEXACT) for cls in classes for part in tree_of(cls).all_nodes()
    )


def may_nest(classes: Iterable[type]) -> bool:
    """True if a value of these types can nest without limit: an untyped field, or a type that contains itself."""
    return any(_nests_without_limit(tree_of(cls), frozenset()) for cls in classes)


def _nests_without_limit(part: TypeNode, outer_ids: frozenset[int]) -> bool:
    if isinstance(part.msgspec_type, msgspec_types.AnyType) or id(part.msgspec_type) in outer_ids:
        return True
    return any(
        _nests_without_limit(child, outer_ids | {id(part.msgspec_type)}) for child in part.child_nodes()
    )


def may_hold_objects(cls: type[msgspec.Struct]) -> bool:
    """True if a field of a message can be an object in JSON."""
    return not all(_is_never_object(field.type) for field in msgspec_types.type_info(cls).fields)  # type: ignore[attr-defined]


def _is_never_object(msgspec_type: Any) -> bool:
    while isinstance(msgspec_type, msgspec_types.Metadata):
        msgspec_type = msgspec_type.type
    if isinstance(msgspec_type, msgspec_types.UnionType):
        return all(map(_is_never_object, msgspec_type.types))
    return isinstance(msgspec_type, _NEVER_OBJECTS)


#: The names of the items of a named tuple or of an array-like object, which msgspec's schema lacks.
ITEM_NAMES = "x-items"


def schema_components(
    classes: Sequence[type], template: str = "#/$defs/{name}"
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return msgspec's schemas: a reference for each class, and the definitions by name.

    Two processes get equal schemas: default values are encoded as in messages, so the order of sets does not
    depend on the hash seed. The definition of a JSON array with named items lists the names of the items
    (`ITEM_NAMES`), because swapped names would change the meaning of a stored array.
    """
    parts = [
        part for cls in classes for part in tree_of(cls).all_nodes() if part.form in ("object", "namedtuple")
    ]
    struct_nodes = {
        part.msgspec_type.cls: part
        for part in parts
        if not isinstance(part.msgspec_type, msgspec_types.TypedDictType)
    }
    references, definitions = msgspec.json.schema_components([*classes, *struct_nodes], ref_template=template)
    for reference, part in zip(references[len(classes) :], struct_nodes.values(), strict=True):
        definition = definitions[definition_name(reference["$ref"], definitions)]
        fields = part.msgspec_type.fields
        items = definition.get("prefixItems", ())[-len(fields) :] if fields else ()
        if items:  # an array-like object has its tag before its fields
            definition[ITEM_NAMES] = [field.encode_name for field in fields]
        schemas = items or [definition.get("properties", {}).get(field.encode_name, {}) for field in fields]
        for field, schema in zip(fields, schemas, strict=False):
            if "default" in schema and field.default is not msgspec.NODEFAULT:
                schema["default"] = msgspec.json.decode(encode_json(field.default))
    return list(references[: len(classes)]), definitions


def definition_name(reference: str, definitions: Mapping[str, Any]) -> str:
    """Return the name of the definition to which a reference points, without the prefix of a reference template."""
    name = reference.rpartition("/")[2]
    return name if name in definitions else name.rpartition(".")[2]


def schema_digest(classes: Sequence[type], upcasters: Iterable[str] = ()) -> str:
    """Return 16 hex digits that change with a field's name, type, default or personal-data annotation, and with the
    names of events that have an upcaster. Docstrings and the order of fields do not count.
    """
    _, schemas = schema_components(classes)
    digest_input = {name: without_prose(schema) for name, schema in schemas.items()}
    digest_input |= {f"upcaster of {name}": {} for name in upcasters}  # no name of a class contains spaces
    for cls in classes:
        for field in tree_of(cls).personal_fields:
            digest_input[f"personal {cls.__name__}.{field.wire_name}"] = {
                "default": field.redacted_json.decode()
            }
    return hashlib.sha256(msgspec.json.encode(digest_input, order="deterministic")).hexdigest()[:16]


def class_names(classes: Iterable[type]) -> set[str]:
    """Return the names of these messages and of the classes in their fields, without module."""
    _, schemas = msgspec.json.schema_components(classes)
    return {name.rpartition(".")[2] for name in schemas}


def changed_fields(message: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a message that differ from their defaults."""
    changed = {}
    for field in msgspec.structs.fields(type(message)):
        value = getattr(message, field.name)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if value != default:
            changed[field.name] = value
    return changed


def without_prose(schema: Any) -> Any:
    """Return a JSON Schema without titles, descriptions and examples. Keys below `properties` are names of fields."""
    if isinstance(schema, (list, tuple)):
        return [without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "default":
            result[key] = value
        elif key == "properties":
            result[key] = {name: without_prose(item) for name, item in value.items()}
        elif key not in _PROSE:
            result[key] = without_prose(value)
    return result


def _type_name(part: msgspec_types.Type) -> str:
    cls = getattr(part, "cls", None)
    return cls.__name__ if isinstance(cls, type) else type(part).__name__.removesuffix("Type")
