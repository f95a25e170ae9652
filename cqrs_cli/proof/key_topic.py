"""Compares the data keys in the events with the keys topic, and with the states in shards.

An owner may erase keys during the verification. So a key of the events may be missing if a later event deletes it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from cqrs_cli.codec.ciphertext import key_of_event
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.proof.deferred_log import DeferredLog
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.index_entries import Index
from cqrs_cli.proof.join import decode_events_entry
from cqrs_cli.proof.key_records import TopicKey
from cqrs_cli.proof.keys import KeyEntry, find_state_problems, key_topic_problem, read_key_entry
from cqrs_cli.proof.scope import Scope
from cqrs_cli.state.store import Store


class KeyVerification:
    """The part of a partition's verification that compares data keys with the keys topic and shards."""

    decided_lower = 0  # all commands before this offset are decided

    def __init__(
        self, scope: Scope, store: Store, events: Index, deferred: DeferredLog, findings: Findings
    ) -> None:
        self._scope, self._store, self._events = scope, store, events
        self._deferred, self._findings = deferred, findings

    def check_key_topic(
        self,
        aggregates: Iterable[tuple[str, bytes, TopicKey | None]],
        later_events: Iterable[Record],
        is_assigned: Callable[[str], bool] = lambda subject: True,
    ) -> None:
        """Compare the keys in the logs with the keys topic.

        `aggregates`: (id, encoded key entry from the events, record in the keys topic). `later_events`: the events that
        were written after the logs were read. `is_assigned(subject)`: False for an aggregate that has moved to another
        partition, although its deferred commands may still be in this partition.
        """
        encrypted_entries: list[tuple[int, str, str]] = []
        for entry in self._deferred.entries.values():
            if entry.encrypted_with is not None and is_assigned(entry.encrypted_with[0]):
                encrypted_entries.append((entry.offset, *entry.encrypted_with))
        recently_erased = {*erased_keys_from(self._events, self.decided_lower), *erased_keys_in(later_events)}
        topic = KeyTopic(encrypted_entries, recently_erased, self._findings)
        for subject, key_entry, topic_key in aggregates:
            topic.check_key(subject, read_key_entry(key_entry), None if topic_key is None else topic_key.kid)
            if topic_key is not None:
                self._check_decryption(subject, topic_key)
        topic.check_remaining()

    def _check_decryption(self, subject: str, topic_key: TopicKey) -> None:
        damage_finder = None if self._scope.personal is None else self._scope.personal.damage_finder
        if damage_finder is None or topic_key.wrapped is None:
            return
        if (problem := damage_finder.find_key_problem(subject, topic_key.wrapped)) is not None:
            self._findings.add_violation("keys", topic_key.offset, f"cannot be decrypted: {problem}")

    def add_violations(self, key_findings: Findings) -> None:
        """Add the violations in the records of the keys topic."""
        self._findings.add_all(key_findings)

    def find_state_problems(self, subject: str, cls: type[State], stored_state: StoredState) -> Iterator[str]:
        """Yield the violations in the personal fields of an aggregate's state in a shard."""
        with self._store.view() as view:
            key_state = view.find_state(subject)
        yield from find_state_problems(
            read_key_entry(b"" if key_state is None else key_state.state), cls, stored_state
        )
        if self._scope.personal is not None and self._scope.personal.damage_finder is not None:
            yield from self._scope.personal.damage_finder.find_damaged_state_values(
                subject, stored_state.state
            )


def erased_keys_from(events: Index, first_command: int) -> Iterator[tuple[str, str]]:
    """Yield (subject, key id) of each `Erased` event whose command is at or after the offset `first_command`."""
    for command, encoded_entry in events.entries():
        if command < first_command:
            continue
        events_entry = decode_events_entry(encoded_entry)
        if events_entry.is_erasure and events_entry.kid is not None:
            yield events_entry.subject, events_entry.kid


def erased_keys_in(events: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """Yield (subject, key id) of each `Erased` among the events."""
    for record in events:
        try:
            event = read_event(record.value)
            key = key_of_event(event)
        except ValueError:  # the next verification reports it
            continue
        if key is not None and key.is_erasure:
            yield event.subject, key.kid


class KeyTopic:
    """Compares the keys in the logs with the keys topic, which was read after the logs.

    `recently_erased`: (subject, key id) of each `Erased` that may have been written after the logs were read. These
    keys may be missing in the keys topic.
    """

    def __init__(
        self,
        encrypted_entries: Iterable[tuple[int, str, str]],
        recently_erased: Collection[tuple[str, str]],
        findings: Findings,
    ) -> None:
        """`encrypted_entries`: (offset in the deferred topic, subject, key id) of each encrypted deferred command."""
        self._encrypted_entries: dict[str, list[tuple[int, str]]] = {}
        for offset, subject, kid in encrypted_entries:
            self._encrypted_entries.setdefault(subject, []).append((offset, kid))
        self._recently_erased, self._findings = recently_erased, findings

    def check_key(self, subject: str, key_entry: KeyEntry, topic_kid: str | None) -> None:
        """Check the key of an aggregate. `topic_kid`: the id of its latest key in the keys topic, or None."""
        active_kid = key_entry.kid
        for offset, kid in self._encrypted_entries.pop(subject, ()):
            if kid in key_entry.erased_kids or (subject, kid) in self._recently_erased or kid == active_kid:
                continue
            if active_kid is None:
                active_kid = kid
                self._add_violation("deferred", offset, subject, replace(key_entry, kid=kid), topic_kid)
            elif (subject, active_kid) not in self._recently_erased:
                problem = f"is encrypted with key {kid} of {subject!r}, but key {active_kid} is active"
                self._findings.add_violation("deferred", offset, problem)
        if active_kid is None or active_kid == key_entry.kid:
            self._add_violation("events", key_entry.offset, subject, key_entry, topic_kid)

    def check_remaining(self) -> None:
        """Check the aggregates that have encrypted deferred commands, but neither events nor a key in the topic."""
        for subject in [*self._encrypted_entries]:
            self.check_key(subject, KeyEntry(), None)

    def _add_violation(
        self, log: LogName, offset: int, subject: str, key_entry: KeyEntry, topic_kid: str | None
    ) -> None:
        if (problem := key_topic_problem(subject, key_entry, topic_kid)) is None:
            return
        has_erased_key = topic_kid in key_entry.erased_kids
        if has_erased_key or (subject, key_entry.kid) not in self._recently_erased:
            self._findings.add_violation(log, offset, problem)
