"""The command that is being decided."""

from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.record import Record


class DecisionInProgress(Struct, gc=False):
    """A command with the results of its checks so far. The numbers are the checks of docs/messages.md."""

    record: Record
    deferral: Deferral | None = None  # the deferral, if an owner resubmitted the command
    poison_reason: str | None = None  # the reason why the aggregate's code is not called
    envelope: CommandEnvelope | None = None  # from check 2 on
    fingerprint: int | UnsetType = UNSET  # the fingerprint, from check 2 on
    expected_version: str | UnsetType = UNSET  # the expected version as text, from check 4 on
    state_before: VersionedState | None = None  # the aggregate before the command, from check 4 on

    @property
    def version(self) -> int:
        """The aggregate's version before the command; 0 if the aggregate does not exist."""
        return self.state_before.version if self.state_before else 0
