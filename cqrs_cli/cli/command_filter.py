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

    def matches(self, aggregate: str, id: str, subject: str | None, message_type: str | None) -> bool:
        """True if these options select a command with these attributes."""
        wire_types = [name if "." in name else f"{aggregate}.{name}" for name in self.types or ()]
        return (
            (self.id is None or id == self.id)
            and (self.aggregate_id is None or subject == self.aggregate_id)
            and (not wire_types or message_type in wire_types)
        )
