"""The broker's part of one partition, as a value: two logs, one transactional id, one committed offset.

All commands exist from the start. Control records and aborted records take up offsets, as in Kafka.
"""

from typing import Literal, NamedTuple

from cqrs_cli.ownership.claim import Claim

#: `open` belongs to the owners' transactional id, `foreign` to another program's transaction. Readers of committed
#: records see neither these records nor the records after them.
#: Retention has deleted a `deleted` record, which was committed.
RecordStatus = Literal["open", "foreign", "committed", "aborted", "control", "deleted"]

#: A log or group in which a marker makes a decided commit visible. Each marker is written at its own time.
MarkerTarget = Literal["group", "events", "outcomes"]


class Slot(NamedTuple):
    """One offset of a log."""

    status: RecordStatus
    value: bytes = b""


Log = tuple[Slot, ...]

_CONTROL = Slot("control")


class Transaction(NamedTuple):
    """A produced transaction whose end request is under way: the broker may receive it at any time, or never."""

    owner_number: int  # number of the owner whose producer wrote it
    offset: int  # the position that it commits
    claim: Claim
    missing_markers: tuple[MarkerTarget, ...]  # the logs or group without a marker yet
    is_final: bool = False  # the end request has arrived: the commit is final


class Broker(NamedTuple):
    """The broker's state. Methods return the state after an action."""

    events: Log = ()
    outcomes: Log = ()
    offset: int | None = None
    claim: Claim | None = None
    epoch: int | None = None  # the owner whose producer may write; None after the coordinator has fenced it
    transaction: Transaction | None = None

    @property
    def has_pending_commit(self) -> bool:
        """True while a decided commit is not visible everywhere. Until then its transactional id is busy."""
        return self.transaction is not None and self.transaction.is_final

    @property
    def hides_offset_commit(self) -> bool:
        """True while an offset commit is pending: a reader of committed offsets waits for it."""
        return self.transaction is not None and "group" in self.transaction.missing_markers

    def after_fence(self, actor: int | None) -> "Broker":
        """Call `init_transactions` as this owner, or time out (None): an open transaction is aborted."""
        return self._after_abort()._replace(epoch=actor)

    def after_produce(
        self,
        owner_number: int,
        offset: int,
        claim: Claim,
        events: tuple[bytes, ...] = (),
        outcomes: tuple[bytes, ...] = (),
        commits_position: bool = True,
    ) -> "Broker":
        """Write a transaction, whose end request is then under way."""
        missing_markers: list[MarkerTarget] = ["group"] if commits_position else []
        if events:
            missing_markers.append("events")
        if outcomes:
            missing_markers.append("outcomes")
        return self._replace(
            events=self.events + tuple(Slot("open", value) for value in events),
            outcomes=self.outcomes + tuple(Slot("open", value) for value in outcomes),
            transaction=Transaction(owner_number, offset, claim, tuple(missing_markers)),
        )

    def after_end_request(self) -> "Broker":
        """Let the end request arrive."""
        assert self.transaction is not None and self.transaction.owner_number == self.epoch
        return self._replace(transaction=self.transaction._replace(is_final=True))

    def after_marker(self, target: MarkerTarget) -> "Broker":
        """Write the marker of the decided commit in a log or in the group."""
        transaction = self.transaction
        assert transaction is not None and transaction.is_final
        missing_markers = tuple(other for other in transaction.missing_markers if other != target)
        after = self._replace(
            transaction=transaction._replace(missing_markers=missing_markers) if missing_markers else None
        )
        match target:
            case "group":
                return after._replace(offset=transaction.offset, claim=transaction.claim)
            case "events":
                return after._replace(events=_end_records(self.events, "open", "committed"))
            case "outcomes":
                return after._replace(outcomes=_end_records(self.outcomes, "open", "committed"))

    def after_retention(self) -> "Broker":
        """Delete all outcomes, which are old."""
        return self._replace(
            outcomes=tuple(
                slot._replace(status="deleted") if slot.status == "committed" else slot
                for slot in self.outcomes
            )
        )

    def after_foreign_begin(self, target: MarkerTarget) -> "Broker":
        """Let another program open a transaction on one of the logs."""
        if target == "events":
            return self._replace(events=(*self.events, Slot("foreign")))
        return self._replace(outcomes=(*self.outcomes, Slot("foreign")))

    def after_foreign_abort(self) -> "Broker":
        """Abort the other program's transaction."""
        return self._replace(
            events=_end_records(self.events, "foreign", "aborted"),
            outcomes=_end_records(self.outcomes, "foreign", "aborted"),
        )

    def after_all_ends(self) -> "Broker":
        """Resolve all transactions: decided commits become visible, and all others are aborted."""
        broker = self
        while broker.has_pending_commit:
            assert broker.transaction is not None
            broker = broker.after_marker(broker.transaction.missing_markers[0])
        return broker.after_foreign_abort().after_fence(None)

    def _after_abort(self) -> "Broker":
        if self.transaction is None:
            return self
        return self._replace(
            events=_end_records(self.events, "open", "aborted"),
            outcomes=_end_records(self.outcomes, "open", "aborted"),
            transaction=None,
        )


def _end_records(log: Log, status: RecordStatus, new_status: RecordStatus) -> Log:
    """Return the log after the end of a transaction; unchanged if the transaction wrote nothing to it."""
    if not any(slot.status == status for slot in log):
        return log
    return (*(slot._replace(status=new_status) if slot.status == status else slot for slot in log), _CONTROL)


def last_stable(log: Log) -> int:
    """Return the last stable offset: the start of the first open transaction."""
    return next((n for n, slot in enumerate(log) if slot.status in ("open", "foreign")), len(log))


def visible_records(log: Log, start: int, end: int) -> list[bytes]:
    """Return the records between two offsets that a reader of committed records sees."""
    return [slot.value for slot in log[start : min(end, last_stable(log))] if slot.status == "committed"]


def committed_records(log: Log, is_final: bool) -> list[bytes]:
    """Return the committed records in order, visible or not, or deleted since."""
    final = ("committed", "deleted", "open") if is_final else ("committed", "deleted")
    return [slot.value for slot in log if slot.status in final]
