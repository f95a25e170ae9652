"""Personal-data annotations are read from a message's fields, or refused."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import NODEFAULT, Meta, Struct, UnsetType, defstruct
from msgspec.json import decode

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import InvalidAggregate
from cqrs_cli.core.aggregate.schema import schema_digest
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.personal_fields import AnnotationError, Personal, personal, personal_fields
from tests.core.personal.customer import CUSTOMER, Customer, Register, Registered, evolve

PersonalName = NewType("PersonalName", Annotated[str, personal])
EPOCH = datetime.date(1970, 1, 1)


class Inner(Struct):
    street: Personal[str]


class Plain(Struct):
    street: str


def event(annotation: Any, default: Any = NODEFAULT) -> type[Struct]:
    """Return an event class with one field."""
    return defstruct("Moved", [("field", annotation, default)], bases=(cqrs.Event,), frozen=True)


def redacted_value(annotation: Any) -> Any:
    [field] = personal_fields(event(annotation))
    return field.redacted_value()


@pytest.mark.parametrize(
    ("annotation", "erased"),
    [
        (Personal[str], ""),
        (Annotated[str, personal], ""),
        (PersonalName, ""),
        (Annotated[str | UnsetType, personal], ""),
        (Personal[int], 0),
        (Personal[float], 0.0),
        (Personal[Decimal], Decimal(0)),
        (Personal[bool], False),
        (Personal[bytes], b""),
        (Annotated[Any, personal], None),
        (Annotated[str | None, personal], None),
        (Personal[list[Plain]], []),
        (Personal[tuple[Plain, ...]], ()),
        (Personal[set[str]], set()),
        (Personal[frozenset[str]], frozenset()),
        (Personal[dict[str, Plain]], {}),
        (Annotated[str, Meta(min_length=1), personal(erased="nobody")], "nobody"),
        (Annotated[datetime.date, personal(erased=EPOCH)], EPOCH),
        (Annotated[Plain, personal(erased=Plain("nowhere"))], Plain("nowhere")),
        (Annotated[Literal["a", "b"], personal(erased="b")], "b"),
    ],
)
def test_redacted_value_depends_on_the_type(annotation: Any, erased: Any) -> None:
    value = redacted_value(annotation)
    assert (type(value), value) == (type(erased), erased)


def test_fields_without_annotation_are_not_personal() -> None:
    assert personal_fields(event(Annotated[str, Meta(min_length=1)])) == ()


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Personal[str] | None, "within its type"),
        (Union[int, Personal[str]], "within its type"),  # noqa: UP007 - the other spelling
        (list[Personal[int]], "within its type"),
        (dict[str, tuple[Inner, ...]], "within its type"),
        (Personal[Inner], "within its type"),
        (Annotated[list["Inner"], personal], "within its type"),
        (list[PersonalName], "within its type"),
        (Annotated[Personal[str], personal], "annotated as personal twice"),
        (Personal[datetime.datetime], "no default redacted value"),
        (Annotated[int | str, personal], "no default redacted value"),
        (Annotated[tuple[int, int], personal], "no default redacted value"),
        (Annotated[Plain, personal], "no default redacted value"),
        (Annotated[str, Meta(min_length=1), personal], 'redacted value "" does not match'),
        (Annotated[Literal["a"], personal(erased="b")], "redacted value 'b' does not match"),
        (Annotated[int, personal(erased=True)], "redacted value True does not match"),
        (Annotated[float, personal(erased=float("nan"))], "redacted value nan does not match"),
        (Annotated[str, personal(erased=object())], "does not match"),
        (Annotated[tuple[int, int], personal(erased=[0, 0])], "does not match"),
    ],
)
def test_invalid_annotation_is_refused(annotation: Any, message: str) -> None:
    with pytest.raises(AnnotationError, match=rf"^Moved\.field.*{message}"):
        personal_fields(event(annotation))


@given(st.one_of(st.integers(), st.text(), st.none(), st.lists(st.integers()), st.booleans()))
def test_redacted_value_fits_its_type(erased: Any) -> None:
    """A redacted value is refused for a type, or is read back unchanged."""
    for annotation in (int, str, str | None, list[int], bool, dict[str, int], Annotated[int, Meta(ge=3)]):
        try:
            value = redacted_value(Annotated[annotation, personal(erased=erased)])
        except AnnotationError:
            continue
        assert (value, type(value)) == (erased, type(erased))
        assert decode(encode_json(value), type=annotation) == erased


def test_redacted_values_are_not_shared() -> None:
    [field] = personal_fields(event(Personal[list[str]]))
    assert field.redacted_value() is not field.redacted_value()


def test_fields_have_their_wire_names() -> None:
    renamed = defstruct("Renamed", [("full_name", Personal[str])], bases=(cqrs.Event,), rename="camel")
    assert [(field.name, field.wire_name) for field in personal_fields(renamed)] == [
        ("full_name", "fullName")
    ]


def test_aggregate_has_personal_fields() -> None:
    assert CUSTOMER.has_personal_fields
    assert [field.name for field in personal_fields(Customer)] == ["name", "mail", "streets"]
    assert Register("Ann").name == "Ann"


def test_aggregate_with_invalid_annotation_is_refused() -> None:
    class Bad(cqrs.Command):
        when: Personal[datetime.date]

    def decide(command: Bad, customer: Customer) -> Iterator[Registered]:
        return iter(())

    with pytest.raises(
        InvalidAggregate, match=r"Bad\.when: its type has no default redacted value"
    ) as raised:
        Aggregate.of("bad", cqrs.Decider(decide, evolve, Customer()))
    assert raised.value.where is Bad


def test_schema_digest_depends_on_annotations() -> None:
    """A shard from before the annotation has unencrypted values, so it is rebuilt."""
    annotations = (str, Personal[str], Annotated[str, personal(erased="nobody")])
    assert len({schema_digest([event(annotation, "")]) for annotation in annotations}) == 3
