"""The one list of the attributes that a command hands on to its events and its outcome."""

from operator import attrgetter
from typing import Any

from msgspec import Struct

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
        """The attributes that are set. A `tracestate` means nothing without `traceparent`; a longer one is left out."""
        found = {}
        for name, text in zip(HANDED_ON, handed_on_texts(self), strict=True):
            if text:
                found[name] = text
        state = found.get("tracestate")
        if state is not None and ("traceparent" not in found or len(state) > MAX_TRACESTATE):
            del found["tracestate"]
        return found


#: The names of these attributes.
HANDED_ON: tuple[str, ...] = HandedOn.__struct_fields__

#: Their texts in an envelope, and those of one that has none.
handed_on_texts, NOTHING_HANDED_ON = attrgetter(*HANDED_ON), tuple(None for _ in HANDED_ON)

#: The attributes that every message has as text, by the names of their columns.
TEXT_COLUMNS = {
    "id": "id",
    "type": "type",
    "subject": "subject",
    "causation": "causationid",
    "correlation": "correlationid",
    **{name: name for name in HANDED_ON},
}
