"""The one list of the attributes that a command hands on to its events and its outcome."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import Struct, defstruct

#: The longest `tracestate` that is handed on, in characters: W3C asks for these, and lets a longer one be left out.
MAX_TRACESTATE = 512


class HandedOn(Struct, frozen=True, kw_only=True, gc=False):
    """The attributes that are handed on as they are, in the order of the wire.

    One more line here is all that one more attribute needs. Commands, events and outcomes have it on the wire,
    `Recorded`, the columns of Spark, SQL and exports, histories, the gateway and AsyncAPI have it by its name.
    """

    traceparent: str | None = None
    tracestate: str | None = None

    def handed_on(self) -> dict[str, Any]:
        """The attributes that are handed on."""
        return {name: text for name, text in zip(HANDED_ON, self.handed_on_texts(), strict=True) if text}

    def handed_on_texts(self) -> tuple[str | None, ...]:
        """The text of each attribute, None for those that are not handed on: a `tracestate` means nothing without a
        `traceparent`, and a longer one is left out.
        """
        texts = _texts(self)
        if self.tracestate is None and "" not in texts:
            return texts
        is_fit = self.traceparent and len(self.tracestate or "") <= MAX_TRACESTATE
        unfit = None if is_fit else "tracestate"
        return tuple(
            (text or None) if name != unfit else None for name, text in zip(HANDED_ON, texts, strict=True)
        )


#: The names of these attributes.
HANDED_ON: tuple[str, ...] = HandedOn.__struct_fields__

_texts: Callable[[HandedOn], tuple[str | None, ...]] = attrgetter(*HANDED_ON)

#: The attributes that stand in events and outcome of one command alike, in the order of the wire.
Shared = defstruct(
    "Shared",
    [
        *((name, str) for name in ("subject", "time", "causationid", "correlationid")),
        *((name, str | None, None) for name in HANDED_ON),
    ],
    omit_defaults=True,
    gc=False,
)

#: The attributes that every message has as text, by the names of their columns.
TEXT_COLUMNS = {
    "id": "id",
    "type": "type",
    "subject": "subject",
    "causation": "causationid",
    "correlation": "correlationid",
    **{name: name for name in HANDED_ON},
}
