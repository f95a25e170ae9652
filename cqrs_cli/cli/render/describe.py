"""The text of `cqrs describe`: an aggregate's messages with their fields, as they are written on a command line."""

import inspect
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import json_line, printable_lines

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.aggregate import Aggregate
    from cqrs_cli.core.aggregate.fields import FieldShape

#: A name, its type and default, and its description.
_Row = tuple[str, str, str]


def overview_text(aggregates: "Mapping[str, Aggregate]") -> str:
    """Return each aggregate with its first sentence and the names of its commands."""
    from cqrs_cli.core.aggregate.json_schema import module_docstring

    parts = []
    for name, aggregate in aggregates.items():
        description = module_docstring(aggregate).partition("\n")[0]
        names = ", ".join(cls.__name__ for cls in aggregate.commands.values())
        parts.append("\n".join([name, *([f"  {description}"] if description else []), f"  {names}"]))
    return printable_lines("\n\n".join(parts))


def aggregate_text(aggregate: "Aggregate") -> str:
    """Return the aggregate's docstring, then commands, events and state, each with its fields."""
    from cqrs_cli.core.aggregate.json_schema import module_docstring

    sections = [f"{aggregate.name}\n{_indented(module_docstring(aggregate))}".rstrip()]
    events = list(aggregate.events.values())
    for title, classes in (
        ("Commands", list(aggregate.commands.values())),
        ("Events", events),
        ("State", [aggregate.state]),
    ):
        rows = [row for cls in classes for row in _rows_of_message(cls)]
        sections.append("\n".join([title, *_table_lines(rows)]))
    if aggregate.upcasters:
        names = sorted(event_type.removeprefix(f"{aggregate.name}.") for event_type in aggregate.upcasters)
        sections.append("\n".join(["Read by an upcaster", *(f"  {name}" for name in names)]))
    return printable_lines("\n\n".join(sections))


def message_text(aggregate: "Aggregate", cls: type) -> str:
    """Return one message with its fields, and for a command a line that sends it."""
    from cqrs_cli.core.aggregate.fields import fields_of

    fields = fields_of(cls)
    description = inspect.cleandoc(cls.__doc__ or "")
    sections = [f"{cls.__name__}\n{_indented(description)}".rstrip()]
    if fields:
        sections.append("\n".join(_table_lines(list(_field_rows(fields, "")))))
    if cls in aggregate.commands.values():
        sample = [_input_sample(field) for field in fields if field.default is None]
        sections.append(
            f"  {shlex.join(['cqrs', 'send', aggregate.name, 'ID', cls.__name__])} {' '.join(sample)}".rstrip()
        )
    return printable_lines("\n\n".join(sections))


def _rows_of_message(cls: type) -> Iterator[_Row]:
    from cqrs_cli.core.aggregate.fields import fields_of

    description = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    yield cls.__name__, "", description
    yield from _field_rows(fields_of(cls), "  ")


def _field_rows(fields: "Iterable[FieldShape]", indent: str, prefix: str = "") -> Iterator[_Row]:
    """Yield a row for each field, and then its nested fields, each in the form that `send` takes: `lines[0][sku]`."""
    for field in fields:
        path = f"{prefix}[{field.name}]" if prefix else field.name
        default = "" if field.default is None else f" = {field.default}"
        remarks = ["personal"] * field.is_personal + [field.description] * bool(field.description)
        yield indent + path, field.type + default, "; ".join(remarks)
        yield from _field_rows(field.fields, indent + "  ", path + _nested_prefix(field))


def _nested_prefix(field: "FieldShape") -> str:
    """Return the text between a field and its nested fields: `[0]` for a list; each `[]` would begin a new item."""
    return field.path.replace("[]", "[0]")


def _input_sample(field: "FieldShape") -> str:
    """Return a field as a placeholder of its input: `amount=…`, or `lines[0][sku]=…` for a nested object."""
    if field.fields:
        return " ".join(
            f"{field.name}{_nested_prefix(field)}[{nested_field.name}]=…"
            for nested_field in field.fields
            if nested_field.default is None
        )
    return f"{field.name}=…"


def _table_lines(rows: Sequence[_Row]) -> list[str]:
    """Return the rows as lines, with columns two spaces apart. A row without a type is a title."""
    widths = [max((len(row[column]) for row in rows if row[1]), default=0) for column in (0, 1)]
    lines = []
    for name, type_text, description in rows:
        if type_text:
            lines.append(f"  {name:{widths[0]}}  {type_text:{widths[1]}}  {description}".rstrip())
        else:
            lines.append(f"  {name}  {description}".rstrip())
    return lines


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def indented_json(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON."""
    import msgspec

    return msgspec.json.format(json_line(document), indent=2).decode()
