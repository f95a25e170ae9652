"""The broker's part of one partition, as a value: two logs, one transactional id, one committed offset.

The commands are all there from the start. Control records and aborted ones take up offsets, as they do in Kafka.
"""

from typing import Literal, NamedTuple

from cqrs_cli.ownership.claim import Claim

#: `open` belongs to the owners' transactional id, `foreign` to a stranger's transaction; both are invisible to who
#: reads committed, and so is everything behind them.
Status = Literal["open", "foreign", "committed", "aborted", "control"]

#: Where a marker makes a decided commit visible, each at its own time.
Place = Literal["group", "events", "outcomes"]


class Slot(NamedTuple):
    """One offset of a log."""

    status: Status
    value: bytes = b""


Log = tuple[Slot, ...]

_CONTROL = Slot("control")


class Transaction(NamedTuple):
    """Produced, with its end under way: the broker may receive that at any time, or never."""

    of: int  # which actor's producer
    offset: int  # the position it commits
    claim: Claim
    unmarked: tuple[Place, ...]  # where no marker is written yet
    committing: bool = False  # the end has arrived: from here on nothing undoes it


class Broker(NamedTuple):
    """`fenced` and the other verbs give the broker as it is afterwards."""

    events: Log = ()
    outcomes: Log = ()
    offset: int | None = None
    claim: Claim | None = None
    epoch: int | None = (
        None  # the actor whose producer may write; None: the coordinator has fenced the last one
    )
    transaction: Transaction | None = None

    @property
    def is_settling(self) -> bool:
        """True while a decided commit is not visible everywhere: until then its transactional id is busy."""
        return self.transaction is not None and self.transaction.committing

    @property
    def decided(self) -> int:
        """The number of commands that have their outcome for good, visible or not."""
        return len(written(self.outcomes, self.is_settling))

    @property
    def hides_an_offset(self) -> bool:
        """True while an offset commit is pending: a reader of committed offsets waits for it."""
        return self.transaction is not None and "group" in self.transaction.unmarked

    def fenced(self, actor: int | None) -> "Broker":
        """`init_transactions` by this actor, or the transaction's timeout (None): what was open is aborted."""
        return self._aborted()._replace(epoch=actor)

    def produced(
        self,
        of: int,
        offset: int,
        claim: Claim,
        events: tuple[bytes, ...] = (),
        outcomes: tuple[bytes, ...] = (),
    ) -> "Broker":
        """A transaction begun and filled, whose end is under way."""
        unmarked: list[Place] = ["group"]
        if events:
            unmarked.append("events")
        if outcomes:
            unmarked.append("outcomes")
        return self._replace(
            events=self.events + tuple(Slot("open", value) for value in events),
            outcomes=self.outcomes + tuple(Slot("open", value) for value in outcomes),
            transaction=Transaction(of, offset, claim, tuple(unmarked)),
        )

    def reached(self) -> "Broker":
        """The end of the transaction has arrived."""
        assert self.transaction is not None and self.transaction.of == self.epoch
        return self._replace(transaction=self.transaction._replace(committing=True))

    def marked(self, place: Place) -> "Broker":
        """The marker of the decided commit is written in one place."""
        transaction = self.transaction
        assert transaction is not None and transaction.committing
        unmarked = tuple(other for other in transaction.unmarked if other != place)
        after = self._replace(transaction=transaction._replace(unmarked=unmarked) if unmarked else None)
        match place:
            case "group":
                return after._replace(offset=transaction.offset, claim=transaction.claim)
            case "events":
                return after._replace(events=_settled(self.events, "open", "committed"))
            case "outcomes":
                return after._replace(outcomes=_settled(self.outcomes, "open", "committed"))

    def disturbed(self, place: Place) -> "Broker":
        """A stranger has opened a transaction on one of the logs."""
        if place == "events":
            return self._replace(events=(*self.events, Slot("foreign")))
        return self._replace(outcomes=(*self.outcomes, Slot("foreign")))

    def undisturbed(self) -> "Broker":
        """The stranger's transaction is aborted."""
        return self._replace(
            events=_settled(self.events, "foreign", "aborted"),
            outcomes=_settled(self.outcomes, "foreign", "aborted"),
        )

    def settled(self) -> "Broker":
        """Nothing is open: what was decided is visible, everything else is aborted."""
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
    """The log once a transaction has ended: nothing changes where it wrote nothing."""
    if not any(slot.status == before for slot in log):
        return log
    return (*(slot._replace(status=after) if slot.status == before else slot for slot in log), _CONTROL)


def last_stable(log: Log) -> int:
    """The last stable offset: where the first open transaction begins."""
    return next((n for n, slot in enumerate(log) if slot.status in ("open", "foreign")), len(log))


def visible(log: Log, start: int, end: int) -> list[bytes]:
    """The records of a stretch that a reader of committed records sees."""
    return [slot.value for slot in log[start : min(end, last_stable(log))] if slot.status == "committed"]


def written(log: Log, committing: bool) -> list[bytes]:
    """The records that are committed for good, in order, visible or not."""
    final = ("committed", "open") if committing else ("committed",)
    return [slot.value for slot in log if slot.status in final]
