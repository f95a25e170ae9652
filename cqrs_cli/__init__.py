"""The names that aggregates and programs import; the README has both. Loads no Spark, Kafka, LMDB or Typer.

`Client` and `decode` are loaded on first use: aggregates need neither.
"""

import importlib
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, Rejected, State
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.projections.projection import Projection
from cqrs_cli.version import __version__

if TYPE_CHECKING:
    from cqrs_cli.client.client import Client
    from cqrs_cli.client.decode import decode

__all__ = [
    "Client",
    "Command",
    "Context",
    "Decider",
    "Event",
    "Process",
    "Projection",
    "Recorded",
    "Rejected",
    "Send",
    "State",
    "__version__",
    "decode",
    "field",
    "replace",
]

#: Loaded on first use, by module.
_LATER = {"Client": "cqrs_cli.client.client", "decode": "cqrs_cli.client.decode"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
