"""A shard in memory with the methods that recovery calls."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.record import Record
from cqrs_cli.state.store import Positions

if TYPE_CHECKING:
    from tests.core.deferral.world import World


class RecoveringShard:
    """A shard during recovery, and the records of the deferred topic."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.positions = Positions(0, 0, world.shard.outcomes, 0, world.shard.deferred)
        self.table = DeferralTable(world.shard.entries)

    @property
    def has_deferred(self) -> bool:
        return not self.table.is_empty()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def deferred(self) -> DeferralTable:
        return self.table

    def fold(self, end: Positions, *, deferred: Mapping[str, Deferral | None]) -> None:
        self.positions = end
        self.table.apply_changes(deferred)

    def read(self, kind: str, start: int, end: int) -> Iterator[list[Record]]:
        for offset, entry in enumerate(self.world.topic[start:end], start):
            if entry is not None:
                yield [Record(offset, 0, entry[0].encode(), entry[1])]
