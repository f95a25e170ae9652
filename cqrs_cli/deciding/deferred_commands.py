"""The deferred commands of an active owner: it resubmits them when they are due.

A resubmission is a transaction of its own: it appends the command, and then the entry with the offset that the broker
returned for the command. Due commands are read from the shard. A batch that changes an entry is applied to the shard at
once, so the shard contains every earlier cancel request when the owner resubmits.
"""

from collections.abc import Mapping

from cqrs_cli.core.context import Decisions
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.broker_clock import BrokerClock
from cqrs_cli.deciding.errors import explain_recreated_topic
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.write_errors import TopicRecreatedError
from cqrs_cli.observer import reached

#: Approximate limit on the bytes of the commands that one transaction resubmits.
_MAX_BYTES = 8 * 1024 * 1024

_SIZE_HINT = "raise max.message.bytes of the commands topic and the deferred topic to its former value"


class DeferredCommands:
    """One partition's deferred commands, in a recovered shard."""

    def __init__(self, session: OwnerSession, cache: StateCache) -> None:
        self._session, self._cache = session, cache
        self._clock = BrokerClock(session.rules.limits.clock_tolerance)

    def deferrals(self) -> Deferrals:
        """Return the current entries, for one batch."""
        return self._session.rules.deferrals(self._cache.deferred, self._cache.has_deferred)

    def seconds_until_due(self, max_seconds: float) -> float:
        """Return the seconds until the next deferred command is due, at most `max_seconds`."""
        due_at = self._cache.next_due
        return max_seconds if due_at is None else min(max_seconds, max(0.0, (due_at - self._now()) / 1000))

    def is_due(self) -> bool:
        """Return True if a deferred command is due."""
        due_at = self._cache.next_due
        return due_at is not None and due_at <= self._now()

    def _own_time(self) -> float:
        """Return the time of the owner's clock, in ms."""
        return self._session.timing.clock() * 1000

    def _now(self) -> float:
        return self._clock.now(self._own_time())

    def resubmit(self, position: int) -> int:
        """Resubmit due commands, as many as fit into one transaction, and apply the change to the shard. `position`:
        the offset of the next command to decide.

        Return the offset after the last resubmitted command; `position` if no command is due.
        """
        session, cache = self._session, self._cache
        cache.flush()
        decisions, end = Decisions(cache.positions.clock), position
        failure = f"{session.log.log_name('commands')}: deferred commands cannot be resubmitted"
        try:
            with session.transaction(position, failure, _SIZE_HINT) as transaction, cache.reading():
                deferrals = self.deferrals()
                entries = deferrals.due_entries(int(self._now()), session.timing.batch_limit, _MAX_BYTES)
                decisions.deferral_changes = deferrals.changed_entries
                reached("resubmit.before")
                transaction.write(decisions)
                commands = [
                    (entry.subject.encode(), deferrals.resubmission_document(entry)) for entry in entries
                ]
                sent_at = self._own_time()
                broker_positions = session.writer.resubmit(commands)  # (offset, timestamp) of each command
                reached("resubmit.produced")
                self._clock.learn_from_timestamps(
                    sent_at, (timestamp for _, timestamp in broker_positions if timestamp is not None)
                )
                for entry, (offset, _) in zip(entries, broker_positions, strict=True):
                    deferrals.set_resubmitted_offset(entry, offset)
                    end = max(end, offset + 1)
                session.writer.append_deferred(deferred_records(decisions.deferral_changes))
                reached("resubmit.updated")
        except TopicRecreatedError as error:
            raise explain_recreated_topic(error, session.partition, position) from error
        cache.stage(decisions, position, *transaction.written)
        cache.flush()
        return end


def deferred_records(changed_entries: Mapping[str, Deferral | None]) -> list[tuple[bytes | None, bytes]]:
    """Return the records, (value, key), of changed entries. The value of an ended entry is None, a tombstone."""
    return [
        (None if entry is None else entry.value(), key.encode()) for key, entry in changed_entries.items()
    ]
