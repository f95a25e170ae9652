"""The deferred commands of an owner at work: those of a batch are noted with it, those that are due are said again.

Saying again is a transaction of its own: the command first, its offset from the broker's report, then the entry with
that offset. What is due is read from the shard, which is level with the log then: a batch that changes an entry is
applied at once. So a command that was just cancelled is never said again as one to be decided.
"""

from collections.abc import Callable, Mapping

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.broker_clock import BrokerClock
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.named_place import spell_position
from cqrs_cli.kafka.write_errors import TopicMadeAgainError

#: Bytes of the commands that one transaction says again, roughly.
_MOST_BYTES = 8 * 1024 * 1024

_TAKE_THEM = "allow it: max.message.bytes of the topics of commands and of deferred commands was larger once"


class Deferring:
    """One partition's deferred commands, over a recovered shard."""

    def __init__(self, session: OwnerSession, cache: StateCache, note: Callable[[str], None]) -> None:
        """`note` takes texts for people."""
        self._session, self._cache = session, cache
        self._clock = BrokerClock(session.rules.limits.early, note)

    def deferrals(self) -> Deferrals:
        """The entries as they are, for one batch."""
        return self._session.rules.deferrals(self._cache.deferred, self._cache.has_deferred)

    def patience(self, most: float) -> float:
        """Seconds until the next command is due, `most` at most."""
        due = self._cache.next_due
        return most if due is None else min(most, max(0.0, (due - self._now()) / 1000))

    def is_due(self) -> bool:
        """True if a command is to be said again."""
        due = self._cache.next_due
        return due is not None and due <= self._now()

    def _own(self) -> float:
        """The owner's clock, ms."""
        return self._session.timing.clock() * 1000

    def _now(self) -> float:
        return self._clock.now(self._own())

    def resubmit(self, at: int) -> int:
        """Say again what is due, as much as one transaction should have, and apply it. `at` is the position.

        Returns the offset behind the last one.
        """
        session, cache = self._session, self._cache
        cache.flush()
        done, end = Decisions(cache.positions.clock), at
        refused = f"{session.log.place('commands')}: deferred commands cannot be said again"
        try:
            with session.transaction(at, refused, _TAKE_THEM) as transaction, cache.reading():
                deferrals = self.deferrals()
                due = deferrals.due(int(self._now()), session.timing.batch_limit, _MOST_BYTES)
                done.deferred = deferrals.changed
                failpoints.reached("again.before")
                transaction.write(done)
                commands = [(one.subject.encode(), deferrals.resubmitted(one)) for one in due]
                before = self._own()
                places = session.writer.resubmit(commands)
                failpoints.reached("again.said")
                self._clock.tell(before, (stamp for _, stamp in places if stamp is not None))
                for one, (offset, _) in zip(due, places, strict=True):
                    deferrals.note_said(one, offset)
                    end = max(end, offset + 1)
                session.writer.note_deferred(values(done.deferred))
                failpoints.reached("again.noted")
        except TopicMadeAgainError as error:
            name, number = session.partition
            raise ContradictionError(
                f"{error} partition {number} was deleted and created again while it was written to",
                "find out why; to go on without what it held: "
                f"cqrs run --accept-loss {spell_position(number, at, name)}",
            ) from error
        cache.stage(done, at, *transaction.written)
        cache.flush()
        return end


def values(changed: Mapping[str, Deferral | None]) -> list[tuple[bytes | None, bytes]]:
    """The records of entries as they are from now on, (value, key): a tombstone for one that has ended."""
    return [(None if entry is None else entry.value(), key.encode()) for key, entry in changed.items()]
