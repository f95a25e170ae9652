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
    from cqrs_cli.following.processes.publication import Publication, PublicEvent
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
    "PublicEvent",
    "Publication",
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

_DECIDER_MODULE = "cqrs_cli.core.aggregate.decider"

#: The module that defines each name.
_DEFINING_MODULES = {
    "Cancel": "cqrs_cli.core.deferral.requests",
    "Client": "cqrs_cli.client.client",
    "Command": _DECIDER_MODULE,
    "Context": _DECIDER_MODULE,
    "Decider": _DECIDER_MODULE,
    "Erase": "cqrs_cli.core.erasure",
    "Erased": "cqrs_cli.core.aggregate.erased",
    "Event": _DECIDER_MODULE,
    "Later": "cqrs_cli.core.deferral.later",
    "Personal": "cqrs_cli.core.personal.personal_fields",
    "Process": "cqrs_cli.core.process",
    "Projection": "cqrs_cli.following.projections.projection",
    "PublicEvent": "cqrs_cli.following.processes.publication",
    "Publication": "cqrs_cli.following.processes.publication",
    "Recorded": "cqrs_cli.core.recorded",
    "Rejected": _DECIDER_MODULE,
    "Release": "cqrs_cli.core.deferral.requests",
    "Send": "cqrs_cli.core.process",
    "State": _DECIDER_MODULE,
    "decode": "cqrs_cli.client.decode",
    "field": "msgspec",
    "personal": "cqrs_cli.core.personal.personal_fields",
    "replace": "msgspec.structs",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINING_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_DEFINING_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_DEFINING_MODULES})
