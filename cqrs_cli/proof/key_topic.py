"""Compare the data keys in the events with the keys topic, which is read after the other logs, and with shards."""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import STATE
from cqrs_cli.core.stored import StoredState
from cqrs_cli.keys.topic import WrappedKey
from cqrs_cli.proof.deferred_log import DeferredLog
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.join import read_events_trace
from cqrs_cli.proof.keys import KeyTrace, judge_key, key_of_event, read_trace, state_faults
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Index
from cqrs_cli.state.store import Store


class KeyProof:
    """The part of verification that checks data keys. Commands before `surely` are certainly decided."""

    surely = 0

    def __init__(
        self, scope: Scope, noted: Store, events: Index, deferred: DeferredLog, findings: Findings
    ) -> None:
        self._scope, self._noted, self._events = scope, noted, events
        self._deferred, self._findings = deferred, findings

    def conclude(
        self,
        known: Iterable[tuple[str, bytes, WrappedKey | None]],
        since: Iterable[Record],
        is_ours: Callable[[str], bool] = lambda subject: True,
    ) -> None:
        """Compare with the keys topic. `known`: aggregate id, key entry in the store, and key in the topic. `since`:
        the events that were written after the logs were read. `is_ours(subject)`: False for an aggregate that has moved
        to another partition, although its deferred commands may still be in this partition.
        """
        sealed = ((one.at, *one.sealed) for one in self._deferred.entries.values() if one.sealed is not None)
        parked = [one for one in sealed if is_ours(one[1])]
        ended = {*ended_in(self._events, self.surely), *ended_since(since)}
        topic = KeyTopic(parked, ended, self._findings)
        for subject, noted, found in known:
            topic.check(subject, read_trace(noted), found)
        topic.conclude()

    def state_faults(self, subject: str, cls: type[State], stored: StoredState) -> Iterator[str]:
        """Yield the violations in the personal fields of an aggregate's state in a shard."""
        with self._noted.view() as view:
            saved = view.find_state(subject)
        yield from state_faults(read_trace(b"" if saved is None else saved.state), cls, stored)
        if self._scope.personal is not None and self._scope.personal.ring is not None:
            yield from self._scope.personal.ring.faults(subject, STATE, stored.state)


def ended_in(events: Index, first: int) -> Iterator[tuple[str, str]]:
    """Yield subject and key id of each `Erased` of the commands from `first` on, which an owner may be deciding."""
    for command, trace in events.items():
        if command >= first and (found := read_events_trace(trace)).ends and found.kid is not None:
            yield found.subject, found.kid


def ended_since(events: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """Yield subject and key id of each `Erased` among the events."""
    for record in events:
        try:
            event = read_event(record.value)
            key = key_of_event(event)
        except ValueError:  # the next verification reports it
            continue
        if key is not None and key.ends:
            yield event.subject, key.kid


class KeyTopic:
    """Compares the keys in the logs with the keys topic, which was read after the logs.

    `ended`: subject and key id of each `Erased` that may be later than the check; these keys may be missing.
    """

    def __init__(
        self,
        parked: Iterable[tuple[int, str, str]],
        ended: Collection[tuple[str, str]],
        findings: Findings,
    ) -> None:
        """`parked`: offset, subject and key id of each encrypted deferred command."""
        self._parked: dict[str, list[tuple[int, str]]] = {}
        for at, subject, kid in parked:
            self._parked.setdefault(subject, []).append((at, kid))
        self._ended, self._findings = ended, findings

    def check(self, subject: str, trace: KeyTrace, found: WrappedKey | None) -> None:
        """Check the key of an aggregate; `found`: its latest key in the topic."""
        in_force = trace.kid
        for at, kid in self._parked.pop(subject, ()):
            if kid in trace.ended or (subject, kid) in self._ended or kid == in_force:
                continue
            if in_force is None:
                in_force = kid
                self._judge("deferred", at, subject, replace(trace, kid=kid), found)
            elif (subject, in_force) not in self._ended:
                what = f"is sealed with key {kid} of {subject!r}, and key {in_force} is in force"
                self._findings.add("deferred", at, what)
        if in_force is None or in_force == trace.kid:
            self._judge("events", trace.at, subject, trace, found)

    def conclude(self) -> None:
        """Check the remaining aggregates, which have deferred commands but no events."""
        for subject in [*self._parked]:
            self.check(subject, KeyTrace(), None)

    def _judge(self, kind: LogName, at: int, subject: str, trace: KeyTrace, found: WrappedKey | None) -> None:
        if (what := judge_key(subject, trace, found)) is None:
            return
        is_lost = found is None or found.kid not in trace.ended
        if not (is_lost and (subject, trace.kid) in self._ended):
            self._findings.add(kind, at, what)
