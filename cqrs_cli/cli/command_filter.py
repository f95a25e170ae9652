"""The options that select commands, for `cqrs dead-letters` and `cqrs deferred`."""

from dataclasses import astuple, dataclass
from typing import Annotated

from cqrs_cli.cli.options import option


@dataclass(frozen=True)
class CommandFilter:
    """The options that select commands. Without an option, all commands are selected."""

    id: Annotated[str | None, option("--id ID", "Only the command with this id.")] = None
    aggregate_id: Annotated[
        str | None, option("--aggregate-id ID", "Only commands for this aggregate id.")
    ] = None
    types: Annotated[list[str] | None, option("--type NAME", "Only this command; repeatable.")] = None

    def __bool__(self) -> bool:
        """True if an option narrows the selection."""
        return any(astuple(self))
