"""The broker's part of one partition, as a value: two logs, one transactional id, one committed offset.

All commands exist from the start. Control records and aborted records take up offsets, as in Kafka.
"""

from typing import Literal, NamedTuple

from cqrs_cli.ownership.claim import Claim

#: `open` belongs to the owners' transactional id, `foreign` to another program's transaction. Readers of committed
#: records see neither these records nor the records after them.
Status = Literal["open", "foreign", "committed", "aborted", "control"]

#: A log or group in which a marker makes a decided commit visible. Each marker is written at its own time.
MarkerTarget = Literal["group", "events", "outcomes"]


class Slot(NamedTuple):
    """One offset of a log."""

    status: Status
    value: bytes = b""


Log = tuple[Slot, ...]

_CONTROL = Slot("control")


class Transaction(NamedTuple):
    """A produced transaction whose end request is under way: the broker may receive it at any time, or never."""

    owner_number: int  # number of the owner whose producer wrote it
    offset: int  # the position that it commits
    claim: Claim
    unmarked: tuple[MarkerTarget, ...]  # the logs or group without a marker yet
    committing: bool = False  # the end request has arrived: the commit is final


class Broker(NamedTuple):
    """The broker's state. Methods return the state after an action."""

    events: Log = ()
    outcomes: Log = ()
    offset: int | None = None
    claim: Claim | None = None
    epoch: int | None = None  # the owner whose producer may write; None after the coordinator has fenced it
    transaction: Transaction | None = None

    @property
    def is_settling(self) -> bool:
        """True while a decided commit is not visible everywhere. Until then its transactional id is busy."""
        return self.transaction is not None and self.transaction.committing

    @property
    def decided(self) -> int:
        """The number of commands with a committed outcome, visible or not."""
        return len(written(self.outcomes, self.is_settling))

    @property
    def hides_an_offset(self) -> bool:
        """True while an offset commit is pending: a reader of committed offsets waits for it."""
        return self.transaction is not None and "group" in self.transaction.unmarked

    def fenced(self, actor: int | None) -> "Broker":
        """Call `init_transactions` as this owner, or time out (None): an open transaction is aborted."""
        return self._aborted()._replace(epoch=actor)

    def produced(
        self,
        owner_number: int,
        offset: int,
        claim: Claim,
        events: tuple[bytes, ...] = (),
        outcomes: tuple[bytes, ...] = (),
    ) -> "Broker":
        """Write a transaction, whose end request is then under way."""
        unmarked: list[MarkerTarget] = ["group"]
        if events:
            unmarked.append("events")
        if outcomes:
            unmarked.append("outcomes")
        return self._replace(
            events=self.events + tuple(Slot("open", value) for value in events),
            outcomes=self.outcomes + tuple(Slot("open", value) for value in outcomes),
            transaction=Transaction(owner_number, offset, claim, tuple(unmarked)),
        )

    def reached(self) -> "Broker":
        """Let the end request arrive."""
        assert self.transaction is not None and self.transaction.owner_number == self.epoch
        return self._replace(transaction=self.transaction._replace(committing=True))

    def marked(self, target: MarkerTarget) -> "Broker":
        """Write the marker of the decided commit in a log or in the group."""
        transaction = self.transaction
        assert transaction is not None and transaction.committing
        unmarked = tuple(other for other in transaction.unmarked if other != target)
        after = self._replace(transaction=transaction._replace(unmarked=unmarked) if unmarked else None)
        match target:
            case "group":
                return after._replace(offset=transaction.offset, claim=transaction.claim)
            case "events":
                return after._replace(events=_settled(self.events, "open", "committed"))
            case "outcomes":
                return after._replace(outcomes=_settled(self.outcomes, "open", "committed"))

    def disturbed(self, target: MarkerTarget) -> "Broker":
        """Let another program open a transaction on one of the logs."""
        if target == "events":
            return self._replace(events=(*self.events, Slot("foreign")))
        return self._replace(outcomes=(*self.outcomes, Slot("foreign")))

    def undisturbed(self) -> "Broker":
        """Abort the other program's transaction."""
        return self._replace(
            events=_settled(self.events, "foreign", "aborted"),
            outcomes=_settled(self.outcomes, "foreign", "aborted"),
        )

    def settled(self) -> "Broker":
        """Resolve all transactions: decided commits become visible, and all others are aborted."""
        broker = self
        while broker.is_settling:
            assert broker.transaction is not None
            broker = broker.marked(broker.transaction.unmarked[0])
        return broker.undisturbed().fenced(None)

    def _aborted(self) -> "Broker":
        if self.transaction is None:
            return self
        return self._replace(
            events=_settled(self.events, "open", "aborted"),
            outcomes=_settled(self.outcomes, "open", "aborted"),
            transaction=None,
        )


def _settled(log: Log, before: Status, after: Status) -> Log:
    """Return the log after the end of a transaction; unchanged if the transaction wrote nothing to it."""
    if not any(slot.status == before for slot in log):
        return log
    return (*(slot._replace(status=after) if slot.status == before else slot for slot in log), _CONTROL)


def last_stable(log: Log) -> int:
    """Return the last stable offset: the start of the first open transaction."""
    return next((n for n, slot in enumerate(log) if slot.status in ("open", "foreign")), len(log))


def visible(log: Log, start: int, end: int) -> list[bytes]:
    """Return the records between two offsets that a reader of committed records sees."""
    return [slot.value for slot in log[start : min(end, last_stable(log))] if slot.status == "committed"]


def written(log: Log, committing: bool) -> list[bytes]:
    """Return the committed records in order, visible or not."""
    final = ("committed", "open") if committing else ("committed",)
    return [slot.value for slot in log if slot.status in final]
