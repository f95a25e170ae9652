"""The types whose JSON form the documentation describes."""

import enum
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Address:
    city: str
    zip: str = ""


_TYPES = {
    annotated_type.__name__: annotated_type
    for annotated_type in (Address, Any, Colour, Decimal, UUID, date, datetime, timedelta)
}


def annotation_type(annotation: str) -> Any:
    """Return the type of an annotation on a page."""
    return eval(annotation, {**_TYPES, "Literal": Literal})  # noqa: S307 - the page's own text
