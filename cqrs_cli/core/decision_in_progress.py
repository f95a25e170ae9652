"""The command that is being decided."""

from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

from cqrs_cli.core.aggregate.decider import Command, Event
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.record import Record

#: A command that has passed its checks: the fields `record` to `expected_version` of `DecisionInProgress`. A tuple,
#: because a class would take twice the time.
CheckedCommand: TypeAlias = tuple[
    Record, CommandEnvelope, bytes, Command, VersionedState | None, int, str | UnsetType
]


class DecisionInProgress(Struct, gc=False):
    """A command with the results of its checks so far. The numbers are the checks of docs/messages.md."""

    record: Record
    envelope: CommandEnvelope | None = None  # from check 2 on
    shared: bytes = b""  # the members that its events and its outcome have in common, from check 2 on
    command: Command | None = None  # from check 7 on
    state_before: VersionedState | None = None  # the aggregate before the command, from check 4 on
    fingerprint: int | UnsetType = UNSET  # the fingerprint, from check 2 on
    expected_version: str | UnsetType = UNSET  # the expected version as text, from check 4 on
    deferral: Deferral | None = None  # the deferral, if an owner resubmitted the command
    poison_reason: str | None = None  # the reason why the aggregate's code is not called
    #: The events of a reserved command, for which `decide` is not called.
    reserved_events: tuple[Event, ...] | None = None

    @property
    def version(self) -> int:
        """The aggregate's version before the command; 0 if the aggregate does not exist."""
        return self.state_before.version if self.state_before else 0

    def checked_command(self) -> CheckedCommand:
        """Return the fields that `BatchState.handle` needs, after all checks have set them."""
        envelope, command, fingerprint = self.envelope, self.command, self.fingerprint
        assert envelope is not None and command is not None and isinstance(fingerprint, int)
        return (
            self.record,
            envelope,
            self.shared,
            command,
            self.state_before,
            fingerprint,
            self.expected_version,
        )
