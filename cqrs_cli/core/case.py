"""One command while it is decided."""

from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.record import Record


class Case(Struct, gc=False):
    """The findings of the checks of one command so far."""

    record: Record
    entry: Deferral | None = None  # of a command that an owner has said again
    blame: str | None = None  # why the aggregate's code is not asked
    envelope: CommandEnvelope | None = None  # from check 2 on
    mark: int | UnsetType = UNSET  # its fingerprint, from check 2 on
    expected: str | UnsetType = UNSET  # from check 4 on
    before: Folded | None = None  # the aggregate, from check 4 on

    @property
    def version(self) -> int:
        """The aggregate's before the command."""
        return self.before.version if self.before else 0
