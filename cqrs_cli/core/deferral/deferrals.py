"""The deferred commands of a partition while a batch is decided: what it changed, over what was there before."""

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
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339

#: The difference between an owner's clock and a broker's that nobody minds, ms.
EARLY = 60_000

#: Bytes of a record that headers, `deferredfrom` and Kafka's own fields take.
_AROUND = 1024


class DeferralLimits(NamedTuple):
    """The limits of a command that is put off: `attempts`, or a document that the topics do not take (bytes).

    `early`: how long before it is due it may be decided (ms), by the broker's time of the record that says it again.
    """

    attempts: int = 20
    command_bytes: int = 1_048_588
    value_bytes: int = 1_048_588 + 64 * 1024
    early: int = EARLY


class Deferrals:
    """The entries of a partition as they are now. `active`: there is one, or there may be."""

    def __init__(
        self,
        view: Callable[[], DeferredView] = DeferralTable,
        topic: str = "",
        partition: int = 0,
        limits: DeferralLimits = DeferralLimits(),  # noqa: B008  (frozen)
        active: bool = False,
        told: Mapping[int, Deferral] | None = None,
    ) -> None:
        """`view` is asked inside the block in which the state may be read; `topic` is the commands topic's id.
        `told`: entries of commands that history says were said again, by offset, where it is decided once more."""
        self.active = active or bool(told)
        self._told = told or {}
        self.changed: dict[str, Deferral | None] = {}
        self._view = view if self.active else DeferralTable  # so that nobody has to ask first
        self._topic, self._partition, self._limits = topic, partition, limits
        #: Seals the document of a command that is parked, where an aggregate has personal fields.
        self.seal: Callable[[CommandEnvelope, bytes], bytes] | None = None
        self._ids: dict[tuple[str, str], str] = {}  # of what has changed: (subject, command id) → key

    def said_at(self, offset: int) -> Deferral | None:
        """The entry whose command an owner has said again at this offset: that record alone is the owner's."""
        found = self._told.get(offset) or self._view().said_at(self._topic, offset)
        return None if found is None else self.changed.get(found.key, found)

    def of_id(self, subject: str, command_id: str) -> Deferral | None:
        """The entry of a command, None if it is not deferred."""
        if (key := self._ids.get((subject, command_id))) is not None:
            return self.changed[key]
        return self._view().of_id(subject, command_id)

    def place(self, entry: Deferral) -> str:
        """The text of `deferredfrom` for what an entry says again."""
        return entry.place(self._topic, self._partition)

    def put(self, entry: Deferral) -> None:
        """Make an entry what it is from now on."""
        self.active = True
        self.changed[entry.key] = entry
        self._ids[entry.subject, entry.id] = entry.key

    def end(self, entry: Deferral) -> None:
        """Remove an entry: its command has its final outcome."""
        self.changed[entry.key] = None
        self._ids[entry.subject, entry.id] = entry.key

    def wait(
        self, record: Record, envelope: CommandEnvelope, moment: datetime, mark: int, version: int
    ) -> Refused | None:
        """Park a command until its `notbefore`; None if that has come, by the record's time."""
        due = due_of(moment)
        if due <= record.timestamp:
            return None
        return self._park(record, envelope, None, mark, version, due, Reason.NOT_YET, "")

    def wait_on(self, record: Record, entry: Deferral) -> Refused | None:
        """Park a command again that was resubmitted too early, by the broker's time; None if its time has come.

        The clock of the owner that resubmitted it is ahead of the broker's. Attempt and due time stay.
        """
        early = entry.due - record.timestamp
        if early <= self._limits.early:
            return None
        self.put(replace(entry, said=None, said_topic=""))
        message = f"said again {early // 1000} s early: the clock of its owner is ahead of the broker's"
        return Refused(Reason.NOT_YET, message, due=rfc3339(entry.due), attempt=entry.attempt)

    def put_off(
        self,
        record: Record,
        envelope: CommandEnvelope | None,
        entry: Deferral | None,
        mark: int,
        version: int,
        later: Later,
    ) -> Refused:
        """Park a command that `decide` puts off, unless it did so too often or cannot be parked."""
        assert envelope is not None
        attempt = 1 + (entry.attempt if entry else 0)
        if attempt > self._limits.attempts:
            why = f": {later.reason}" if later.reason else ""
            return Refused(Reason.GAVE_UP, f"put off {attempt - 1} times{why}")
        due = due_again(later.after, attempt, envelope.id, record.timestamp)
        try:
            return self._park(record, envelope, entry, mark, version, due, Reason.LATER, str(later.reason))
        except Refused as refused:
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
    ) -> Refused:
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
        return Refused(reason, cut(message), due=rfc3339(due), attempt=parked.attempt)

    def _require_room(self, entry: Deferral) -> None:
        """Refuse now what could not be said again when it is due."""
        said, kept = len(entry.command), len(entry.value())
        sendable = self.may_send(entry.subject.encode(), entry.command)
        if not sendable or kept + _AROUND > self._limits.value_bytes:
            limit = self._limits.command_bytes
            raise Refused(Reason.TOO_LARGE, f"deferred, it would be {said} bytes: the limit is {limit}")

    def may_send(self, key: bytes, document: bytes) -> bool:
        """True if the commands topic takes a command again, with one more attribute."""
        return len(document) + len(key) + _AROUND <= self._limits.command_bytes

    def request(self, subject: str, command_id: str, request: Command) -> DeferredTarget:
        """Cancel or release a command; raises `Refused` (NOT_FOUND) if it is not deferred.

        `command_id` is the request's own id. A request that is decided waits no longer, so it is not about itself.
        """
        assert isinstance(request, (Cancel, Release))
        entry = None if request.id == command_id else self.of_id(subject, request.id)
        if entry is None:
            raise Refused(
                Reason.NOT_FOUND, f"no command {request.id[:100]!r} of {subject[:100]!r} is deferred"
            )
        self.put(replace(entry, due=0, cancelled=entry.cancelled or isinstance(request, Cancel)))
        return DeferredTarget(entry.id, entry.offset, entry.inherited_from)

    def due(self, now: int, most: int, most_bytes: float) -> list[Deferral]:
        """Parked commands that are due, before this batch has changed any; at most so many, and bytes."""
        found: list[Deferral] = []
        for entry in self._view().due(now, most):
            found.append(entry)
            most_bytes -= len(entry.command)
            if most_bytes < 0:
                break
        return found

    def resubmitted(self, entry: Deferral) -> bytes:
        """The document that says a command again."""
        return entry.resubmitted(self.place(entry))

    def note_said(self, entry: Deferral, offset: int) -> None:
        """Note where a command stands again, from the broker's report."""
        self.put(replace(entry, said=offset, said_topic=self._topic))
