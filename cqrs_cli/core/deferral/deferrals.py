"""The deferred commands of a partition while a batch is decided: the batch's changes on top of the stored entries."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.deferral.entry import Deferral, DeferredView, due_of
from cqrs_cli.core.deferral.later import Later, next_attempt_time
from cqrs_cli.core.deferral.requests import Cancel, DeferralRequest
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.outcome import DeferredTarget, truncate
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339

#: The tolerated difference between the clocks of owner and broker, ms.
CLOCK_TOLERANCE = 60_000

#: Bytes to reserve in a record for headers, `deferredfrom` and Kafka's own fields.
_RESERVED_BYTES = 1024


class DeferralLimits(NamedTuple):
    """The limits of a deferred command."""

    attempts: int = 20  # the maximal number of times that `decide` may raise `Later`
    command_bytes: int = 1_048_588  # the bytes of a record that the commands topic accepts
    value_bytes: int = 1_048_588 + 64 * 1024  # the bytes of a record that the deferred topic accepts
    #: Milliseconds by which the broker's timestamp of a resubmitted command may be before `due`.
    clock_tolerance: int = CLOCK_TOLERANCE


class Deferrals:
    """The entries of a partition while a batch is decided. `active`: False if there is no entry, so that lookups in the
    store can be skipped.
    """

    def __init__(
        self,
        view: Callable[[], DeferredView] = DeferralTable,
        topic_id: str = "",
        partition: int = 0,
        limits: DeferralLimits = DeferralLimits(),  # noqa: B008  (frozen)
        active: bool = False,
        resubmitted: Mapping[int, Deferral] | None = None,
    ) -> None:
        """`view` returns a view of the stored entries; it is called for each lookup. `topic_id`: of the commands
        topic. `resubmitted` is for a simulation: entries by the offset at which their commands were resubmitted in the
        log.
        """
        self.active = active or bool(resubmitted)
        self._resubmitted = resubmitted or {}
        self.changed_entries: dict[str, Deferral | None] = {}
        self._view = view if self.active else DeferralTable  # so that callers need not check `active`
        self._topic_id, self._partition, self._limits = topic_id, partition, limits
        #: Encrypts the document of a command to defer, if the aggregate has personal fields.
        self.encrypt_document: Callable[[CommandEnvelope, bytes], bytes] | None = None
        #: Of changed entries: (subject, command id) → key.
        self._keys_by_command_id: dict[tuple[str, str], str] = {}

    def find_resubmitted_at(self, offset: int) -> Deferral | None:
        """Return the entry whose command an owner resubmitted at this offset, None for a record of a client."""
        entry = self._resubmitted.get(offset) or self._view().find_resubmitted_at(self._topic_id, offset)
        return None if entry is None else self.changed_entries.get(entry.key, entry)

    def find_by_command_id(self, subject: str, command_id: str) -> Deferral | None:
        """Return the entry of a command, None if the command is not deferred."""
        if (key := self._keys_by_command_id.get((subject, command_id))) is not None:
            return self.changed_entries[key]
        return self._view().find_by_command_id(subject, command_id)

    def deferredfrom_of(self, entry: Deferral) -> str:
        """Return the `deferredfrom` of the entry's resubmitted command."""
        return entry.deferredfrom(self._topic_id, self._partition)

    def set_entry(self, entry: Deferral) -> None:
        """Add or replace an entry."""
        self.active = True
        self.changed_entries[entry.key] = entry
        self._keys_by_command_id[entry.subject, entry.id] = entry.key

    def remove_entry(self, entry: Deferral) -> None:
        """Remove an entry whose command has its final outcome."""
        self.changed_entries[entry.key] = None
        self._keys_by_command_id[entry.subject, entry.id] = entry.key

    def defer_until(
        self, record: Record, envelope: CommandEnvelope, notbefore: datetime, fingerprint: int, version: int
    ) -> CheckFailed | None:
        """Defer a command until its `notbefore`; return None if the record's time is not before `notbefore`."""
        due = due_of(notbefore)
        if due <= record.timestamp:
            return None
        return self._defer(record, envelope, None, fingerprint, version, due, Reason.NOT_YET, "")

    def defer_if_early(self, record: Record, entry: Deferral) -> CheckFailed | None:
        """Defer a resubmitted command again if it is too early by the broker's timestamp; return None if it is due.

        The cause is an owner's clock that is ahead of the broker's clock. The attempt and the due time do not change.
        """
        early_ms = entry.due - record.timestamp
        if early_ms <= self._limits.clock_tolerance:
            return None
        self.set_entry(replace(entry, resubmitted_offset=None, resubmitted_topic_id=""))
        message = (
            f"resubmitted {early_ms // 1000} s early: the clock of its owner is ahead of the broker's clock"
        )
        return CheckFailed(Reason.NOT_YET, message, due=rfc3339(entry.due), attempt=entry.attempt)

    def defer_for_later(
        self,
        record: Record,
        envelope: CommandEnvelope | None,
        entry: Deferral | None,
        fingerprint: int,
        version: int,
        later: Later,
    ) -> CheckFailed:
        """Defer a command for which `decide` raised `Later`; return GAVE_UP or TOO_LARGE if a limit is exceeded."""
        assert envelope is not None
        attempt = 1 + (entry.attempt if entry else 0)
        if attempt > self._limits.attempts:
            reason = f": {later.reason}" if later.reason else ""
            return CheckFailed(Reason.GAVE_UP, f"put off {attempt - 1} times{reason}")
        due = next_attempt_time(later.after, attempt, envelope.id, record.timestamp)
        try:
            return self._defer(
                record, envelope, entry, fingerprint, version, due, Reason.LATER, str(later.reason)
            )
        except CheckFailed as failure:
            return failure

    def _defer(
        self,
        record: Record,
        envelope: CommandEnvelope,
        entry: Deferral | None,
        fingerprint: int,
        version: int,
        due: int,
        reason: Reason,
        message: str,
    ) -> CheckFailed:
        if entry is None:
            command = structured_document(record, envelope)
            if self.encrypt_document is not None:
                command = self.encrypt_document(envelope, command)
            deferral = Deferral(
                self._topic_id,
                record.offset,
                envelope.subject,
                envelope.id,
                fingerprint,
                version,
                record.timestamp,
                due,
                int(reason is Reason.LATER),
                reason.name,
                command,
            )
            self._require_size_limits(deferral)
        else:
            deferral = replace(
                entry,
                due=due,
                attempt=entry.attempt + 1,
                reason=reason.name,
                resubmitted_offset=None,
                resubmitted_topic_id="",
            )
        self.set_entry(deferral)
        return CheckFailed(reason, truncate(message), due=rfc3339(due), attempt=deferral.attempt)

    def _require_size_limits(self, entry: Deferral) -> None:
        """Raise `CheckFailed` (TOO_LARGE) for a command that would be too large to resubmit when it is due."""
        command_size = len(entry.command) + len(entry.subject.encode()) + _RESERVED_BYTES
        value_size = len(entry.value()) + _RESERVED_BYTES
        for size, limit in (
            (command_size, self._limits.command_bytes),
            (value_size, self._limits.value_bytes),
        ):
            if size > limit:
                raise CheckFailed(
                    Reason.TOO_LARGE,
                    f"to be deferred, it would need {size} bytes with its key and attributes: the limit is {limit}",
                )

    def fits_commands_topic(self, key: bytes, document: bytes) -> bool:
        """True if the commands topic accepts the document after `forwardedfrom` or `deferredfrom` is added to it."""
        return len(document) + len(key) + _RESERVED_BYTES <= self._limits.command_bytes

    def cancel_or_release(self, subject: str, command_id: str, request: DeferralRequest) -> DeferredTarget:
        """Cancel or release a deferred command; raises `CheckFailed` (NOT_FOUND) if there is no such command.

        `command_id` is the id of the request itself. A request that names its own id is NOT_FOUND, too: a command is
        no longer deferred when it is decided.
        """
        entry = None if request.id == command_id else self.find_by_command_id(subject, request.id)
        if entry is None:
            raise CheckFailed(
                Reason.NOT_FOUND, f"no command {request.id[:100]!r} of {subject[:100]!r} is deferred"
            )
        self.set_entry(replace(entry, due=0, cancelled=entry.cancelled or isinstance(request, Cancel)))
        return DeferredTarget(entry.id, entry.offset, entry.inherited_from_partition)

    def due_entries(self, now: int, max_entries: int, max_bytes: float) -> list[Deferral]:
        """Return at most `max_entries` parked commands that are due at `now` (ms).

        The list ends early after the command with which the total size exceeds `max_bytes`. Call this before the batch
        changes an entry.
        """
        entries: list[Deferral] = []
        for entry in self._view().due_entries(now, max_entries):
            entries.append(entry)
            max_bytes -= len(entry.command)
            if max_bytes < 0:
                break
        return entries

    def resubmission_document(self, entry: Deferral) -> bytes:
        """Return the document that resubmits a command."""
        return entry.resubmission_document(self.deferredfrom_of(entry))

    def set_resubmitted_offset(self, entry: Deferral, offset: int) -> None:
        """Store the offset of a resubmitted command, from the broker's delivery report."""
        self.set_entry(replace(entry, resubmitted_offset=offset, resubmitted_topic_id=self._topic_id))
