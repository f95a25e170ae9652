"""The deferred commands of a partition while a batch is decided: the batch's changes on top of the stored entries."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.deferral.document import plain_document
from cqrs_cli.core.deferral.entry import Deferral, DeferredView, due_of
from cqrs_cli.core.deferral.later import Later, due_again
from cqrs_cli.core.deferral.requests import Cancel, Release
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.outcome import DeferredTarget, cut
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339

#: The tolerated difference between the clocks of owner and broker, ms.
EARLY = 60_000

#: Bytes to reserve in a record for headers, `deferredfrom` and Kafka's own fields.
_AROUND = 1024


class DeferralLimits(NamedTuple):
    """The limits of a deferred command: the number of attempts, and the bytes that the topics accept.

    `early`: a resubmitted command may be decided so many ms before it is due, by the broker's timestamp of its record.
    """

    attempts: int = 20
    command_bytes: int = 1_048_588
    value_bytes: int = 1_048_588 + 64 * 1024
    early: int = EARLY


class Deferrals:
    """The present entries of a partition. Unless `active`, there is no entry, and all lookups are skipped."""

    def __init__(
        self,
        view: Callable[[], DeferredView] = DeferralTable,
        topic: str = "",
        partition: int = 0,
        limits: DeferralLimits = DeferralLimits(),  # noqa: B008  (frozen)
        active: bool = False,
        told: Mapping[int, Deferral] | None = None,
    ) -> None:
        """`view` is called while the store may be read. `topic` is the id of the commands topic. `told` is for a
        simulation: entries by the offset at which, according to the log, their commands were resubmitted."""
        self.active = active or bool(told)
        self._told = told or {}
        self.changed: dict[str, Deferral | None] = {}
        self._view = view if self.active else DeferralTable  # so that callers need not check `active`
        self._topic, self._partition, self._limits = topic, partition, limits
        #: Encrypts the document of a command to defer, if the aggregate has personal fields.
        self.seal: Callable[[CommandEnvelope, bytes], bytes] | None = None
        self._ids: dict[tuple[str, str], str] = {}  # of changed entries: (subject, command id) → key

    def said_at(self, offset: int) -> Deferral | None:
        """Return the entry whose command an owner resubmitted at this offset, None for a record of a client."""
        found = self._told.get(offset) or self._view().said_at(self._topic, offset)
        return None if found is None else self.changed.get(found.key, found)

    def of_id(self, subject: str, command_id: str) -> Deferral | None:
        """Return the entry of a command, None if the command is not deferred."""
        if (key := self._ids.get((subject, command_id))) is not None:
            return self.changed[key]
        return self._view().of_id(subject, command_id)

    def place(self, entry: Deferral) -> str:
        """Return the `deferredfrom` of the entry's resubmitted command."""
        return entry.place(self._topic, self._partition)

    def put(self, entry: Deferral) -> None:
        """Add or replace an entry."""
        self.active = True
        self.changed[entry.key] = entry
        self._ids[entry.subject, entry.id] = entry.key

    def end(self, entry: Deferral) -> None:
        """Remove an entry whose command has its final outcome."""
        self.changed[entry.key] = None
        self._ids[entry.subject, entry.id] = entry.key

    def wait(
        self, record: Record, envelope: CommandEnvelope, moment: datetime, mark: int, version: int
    ) -> CheckFailed | None:
        """Defer a command until its `notbefore`; return None if the record's time is not before `notbefore`."""
        due = due_of(moment)
        if due <= record.timestamp:
            return None
        return self._park(record, envelope, None, mark, version, due, Reason.NOT_YET, "")

    def wait_on(self, record: Record, entry: Deferral) -> CheckFailed | None:
        """Defer a command again that was resubmitted too early, by the broker's time; return None if it is due.

        The reason is an owner's clock that is ahead of the broker's clock. Attempt and due time do not change.
        """
        early = entry.due - record.timestamp
        if early <= self._limits.early:
            return None
        self.put(replace(entry, said=None, said_topic=""))
        message = f"said again {early // 1000} s early: the clock of its owner is ahead of the broker's"
        return CheckFailed(Reason.NOT_YET, message, due=rfc3339(entry.due), attempt=entry.attempt)

    def put_off(
        self,
        record: Record,
        envelope: CommandEnvelope | None,
        entry: Deferral | None,
        mark: int,
        version: int,
        later: Later,
    ) -> CheckFailed:
        """Defer a command for which `decide` raised `Later`; GAVE_UP or TOO_LARGE if a limit is exceeded."""
        assert envelope is not None
        attempt = 1 + (entry.attempt if entry else 0)
        if attempt > self._limits.attempts:
            why = f": {later.reason}" if later.reason else ""
            return CheckFailed(Reason.GAVE_UP, f"put off {attempt - 1} times{why}")
        due = due_again(later.after, attempt, envelope.id, record.timestamp)
        try:
            return self._park(record, envelope, entry, mark, version, due, Reason.LATER, str(later.reason))
        except CheckFailed as refused:
            return refused

    def _park(
        self,
        record: Record,
        envelope: CommandEnvelope,
        entry: Deferral | None,
        mark: int,
        version: int,
        due: int,
        reason: Reason,
        message: str,
    ) -> CheckFailed:
        if entry is None:
            command = plain_document(record, envelope)
            if self.seal is not None:
                command = self.seal(envelope, command)
            parked = Deferral(
                self._topic,
                record.offset,
                envelope.subject,
                envelope.id,
                mark,
                version,
                record.timestamp,
                due,
                int(reason is Reason.LATER),
                reason.name,
                command,
            )
            self._require_room(parked)
        else:
            parked = replace(
                entry,
                due=due,
                attempt=entry.attempt + 1,
                reason=reason.name,
                said=None,
                said_topic="",
            )
        self.put(parked)
        return CheckFailed(reason, cut(message), due=rfc3339(due), attempt=parked.attempt)

    def _require_room(self, entry: Deferral) -> None:
        """Raise `CheckFailed` (TOO_LARGE) for a command that would be too large to resubmit when it is due."""
        said, kept = len(entry.command), len(entry.value())
        sendable = self.may_send(entry.subject.encode(), entry.command)
        if not sendable or kept + _AROUND > self._limits.value_bytes:
            limit = self._limits.command_bytes
            raise CheckFailed(Reason.TOO_LARGE, f"deferred, it would be {said} bytes: the limit is {limit}")

    def may_send(self, key: bytes, document: bytes) -> bool:
        """True if the commands topic accepts the document, with one more attribute."""
        return len(document) + len(key) + _AROUND <= self._limits.command_bytes

    def request(self, subject: str, command_id: str, request: Command) -> DeferredTarget:
        """Cancel or release a deferred command; raises `CheckFailed` (NOT_FOUND) if there is no such command.

        `command_id` is the request's own id. A request cannot name itself: it is no longer deferred when it is decided.
        """
        assert isinstance(request, (Cancel, Release))
        entry = None if request.id == command_id else self.of_id(subject, request.id)
        if entry is None:
            raise CheckFailed(
                Reason.NOT_FOUND, f"no command {request.id[:100]!r} of {subject[:100]!r} is deferred"
            )
        self.put(replace(entry, due=0, cancelled=entry.cancelled or isinstance(request, Cancel)))
        return DeferredTarget(entry.id, entry.offset, entry.inherited_from)

    def due(self, now: int, most: int, most_bytes: float) -> list[Deferral]:
        """Return parked commands that are due at `now` (ms), at most `most`; stop when they exceed `most_bytes`.

        Call it before the batch changes an entry.
        """
        found: list[Deferral] = []
        for entry in self._view().due(now, most):
            found.append(entry)
            most_bytes -= len(entry.command)
            if most_bytes < 0:
                break
        return found

    def resubmitted(self, entry: Deferral) -> bytes:
        """Return the document that resubmits a command."""
        return entry.resubmitted(self.place(entry))

    def note_said(self, entry: Deferral, offset: int) -> None:
        """Store the offset of a resubmitted command, from the broker's delivery report."""
        self.put(replace(entry, said=offset, said_topic=self._topic))
