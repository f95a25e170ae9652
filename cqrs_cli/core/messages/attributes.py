"""The attributes that are propagated from a command to its events and its outcome, declared only here."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import Struct, defstruct

from cqrs_cli.core.messages.json import encode_json

#: The longest `tracestate` that is propagated, in characters. W3C requires this length, and permits dropping a longer
#: `tracestate`.
MAX_TRACESTATE = 512


class PropagatedAttributes(Struct, frozen=True, kw_only=True, gc=False):
    """The propagated attributes, in the order in which records contain them.

    A new attribute needs only one more line here. The line adds the attribute to commands, events and outcomes on the
    wire, to `Recorded`, to the columns of Spark, SQL and exports, and to histories, the gateway and AsyncAPI.
    """

    traceparent: str | None = None
    tracestate: str | None = None

    def propagated(self) -> dict[str, Any]:
        """Return the propagated attributes that have a value, by name."""
        return {name: text for name, text in zip(PROPAGATED, self.propagated_texts(), strict=True) if text}

    def propagated_texts(self) -> tuple[str | None, ...]:
        """Return the text of each attribute, None for an attribute that is not propagated.

        A `tracestate` is dropped if it is too long or has no `traceparent`.
        """
        texts = _texts(self)
        if self.tracestate is None and "" not in texts:
            return texts
        keeps_tracestate = self.traceparent and len(self.tracestate or "") <= MAX_TRACESTATE
        dropped = None if keeps_tracestate else "tracestate"
        return tuple(
            (text or None) if name != dropped else None for name, text in zip(PROPAGATED, texts, strict=True)
        )


#: The names of the propagated attributes.
PROPAGATED: tuple[str, ...] = PropagatedAttributes.__struct_fields__

_texts: Callable[[PropagatedAttributes], tuple[str | None, ...]] = attrgetter(*PROPAGATED)

#: The attributes that the events and the outcome of each command have in common, and how to compute them from the
#: envelope `command` and the record's `time`.
_ALWAYS_SHARED = {
    "subject": "command.subject",
    "time": "time",
    "causationid": "command.id",
    "correlationid": "command.correlationid or command.id",
}

#: The attributes that the events and the outcome of a command have in common, in the order in which records contain
#: them.
Shared = defstruct(
    "Shared",
    [*((name, str) for name in _ALWAYS_SHARED), *((name, str | None, None) for name in PROPAGATED)],
    omit_defaults=True,
    gc=False,
)

#: Returns the JSON of `Shared` without the braces, in a third of the encoder's time; None if the command has propagated
#: attributes. Call it only if JSON escapes no character of the texts. The function is generated: its f-string is an
#: encoded `Shared`, with expressions in place of the texts.
plain_shared: Callable[[PropagatedAttributes, str], bytes | None] = eval(  # noqa: S307  (only constants)
    f"lambda command, time: None if {' or '.join(f'command.{name} is not None' for name in PROPAGATED)} else "
    f"f'{encode_json(Shared(*map('{{{}}}'.format, _ALWAYS_SHARED.values()))).decode()[1:-1]}'.encode()"
)

#: The text attributes of every message: name of the column → name of the attribute.
TEXT_COLUMNS = {
    "id": "id",
    "type": "type",
    "subject": "subject",
    "causation": "causationid",
    "correlation": "correlationid",
    **{name: name for name in PROPAGATED},
}
