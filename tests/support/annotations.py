"""The types of which pages of the documentation tell how they are written."""

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


_NAMES = {kind.__name__: kind for kind in (Address, Any, Colour, Decimal, UUID, date, datetime, timedelta)}


def annotated(annotation: str) -> Any:
    """The type of an annotation on a page."""
    return eval(annotation, {**_NAMES, "Literal": Literal})  # noqa: S307 - the page's own text
