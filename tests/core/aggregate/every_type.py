"""A message with a field of every type that messages may have, and random values of it."""

import enum
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.strategies import messages_of


class Colour(enum.Enum):
    RED = "red"
    LIGHT_BLUE = "light blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    count: int = 1


class Circle(msgspec.Struct, tag="circle", frozen=True):
    radius: float


class Square(msgspec.Struct, tag="square", frozen=True):
    side: int | None = None


class Pair(NamedTuple):
    key: str
    flag: bool


class Row(msgspec.Struct, array_like=True, tag=True, frozen=True):
    line: Line
    text: str = "x"


class Options(TypedDict, total=False):
    retries: int


class Tree(msgspec.Struct, frozen=True):
    name: str
    left: "Tree | None" = None


class EveryType(cqrs.Event, kw_only=True):
    """A message.

    Its fields have all types.
    """

    truth: bool
    count: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, description="How many.")]
    share: float
    price: Decimal
    at: datetime
    day: date
    hour: time
    pause: timedelta
    id: UUID
    content: bytes
    colour: Colour
    size: Size
    mode: Literal["on", "off", 1] | None
    nothing: None
    maybe: int | None
    due: datetime | None
    number_or_text: int | str | bool
    amount: int | float
    shape: Circle | Square | None
    line: Line
    maybe_line: Line | None
    options: Options
    pair: Pair
    row: Row
    lines: list[Line]
    tags: frozenset[str]
    numbers: tuple[int, ...]
    mixed: tuple[int, str, Line]
    gaps: list[int | None]
    matrix: list[list[int]]
    by_name: dict[str, Line]
    limits: dict[str, int | None]
    nested: dict[str, dict[str, list[str]]]
    anything: Any
    tree: Tree
    short_name: str = msgspec.field(default="", name="short_name")
    mail: str = msgspec.field(default="", name="e-mail")
    short__name: int = msgspec.field(default=0, name="shortName")  # protoc derives this name from short_name
    omitted: str | msgspec.UnsetType = msgspec.UNSET
    empty: list[int] = msgspec.field(default_factory=list)
    default_line: Line = Line("none")
    optional: str = "keyword"


#: The JSON of messages, as owners write it. Protobuf's times end at the limits of UTC.
MESSAGES = st.builds(encode_json, messages_of([EveryType])).filter(
    lambda data: b'"0001-01-01T' not in data and b'"9999-12-31T' not in data
)
