"""The four topics of an aggregate, as values; names of the group and the transactions that guard them."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["commands", "events", "outcomes", "dead-letters"]
KINDS: tuple[Kind, ...] = ("commands", "events", "outcomes", "dead-letters")

#: Room beyond the command itself for headers, reason and envelope in outcomes and dead letters.
ENVELOPE_ROOM = 64 * 1024


@dataclass(frozen=True, slots=True)
class Topics:
    """Names derived from one aggregate's name and the topic prefix (put before the names as it is)."""

    aggregate: str
    prefix: str = ""

    def name(self, kind: Kind) -> str:
        return f"{self.prefix}{self.aggregate}.{kind}"

    @property
    def commands(self) -> str:
        return self.name("commands")

    @property
    def events(self) -> str:
        return self.name("events")

    @property
    def outcomes(self) -> str:
        return self.name("outcomes")

    @property
    def dead_letters(self) -> str:
        return self.name("dead-letters")

    @property
    def group(self) -> str:
        """The consumer group whose offsets say how far each partition is decided, and by whom (the claim)."""
        return f"cqrs.{self.commands}"

    def transactional_id(self, partition: int) -> str:
        """One writer per partition of the events topic, whoever runs it: exclusivity belongs to the topic."""
        return f"cqrs.{self.events}.{partition}"
