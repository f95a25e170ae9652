"""The plain path: ordinary commands that are accepted, decided in two thirds of the time.

For every record it gives the bytes, states and memory that `core.decide` gives, or leaves the record to it before
`decide` is asked (tests/core/test_plain.py holds both against each other). An answer that is not plain, such as a
rejection, goes to `Overlay.conclude`: so `decide` is asked once.
"""

from operator import attrgetter

from msgspec import UNSET

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS
from cqrs_cli.core.context import MAX_BYTES, OutputRecord
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.handle import RECORD_OVERHEAD, Answer, call_decide
from cqrs_cli.core.messages.attributes import HANDED_ON
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, OrdinaryCommand, read_ordinary
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.messages.outcome import WrittenVerdict
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.overlay import Overlay
from cqrs_cli.core.stored import DedupEntry

_attributes, _NOTHING = attrgetter(*HANDED_ON), tuple(None for _ in HANDED_ON)


class PlainPath:
    """The plain path of one batch. What it needs for each command is looked up once.

    JSON is written by hand here: the texts of an ordinary command stand between quotes as they are, and all else is
    numbers, names of classes and JSON of `encode_json`.
    """

    def __init__(self, batch: Overlay) -> None:
        aggregate, context = batch.aggregate, batch.context
        self._batch, self._aggregate, self._done = batch, aggregate, batch.done
        self._marked, self._deferrals = batch.marked, batch.deferrals
        self._states, self._remembered = batch.states, batch.remembered
        self._state_of, self._remembered_of = context.state, context.remembered
        self._partition, self._partition_of = context.partition, context.partition_of
        self._most_data = context.payload_threshold
        # The key is no longer than the record that has it as its subject.
        self._most_bytes = min(MAX_BYTES, context.max_event_bytes - RECORD_OVERHEAD - MAX_ATTRIBUTE)
        self._step, self._event_types = aggregate.step, aggregate.event_types
        self._initial = aggregate.decider.initial
        self._commands, self._may_nest = aggregate.decode_command, aggregate.may_nest
        self._counts = batch.counts
        self._encode = aggregate.quick_encode
        self._id = f'{{"specversion":"1.0","id":"{context.partition}/'
        self._type = f'","source":"{aggregate.ce_source}","type":"'

    def decide(self, record: Record) -> bool:
        """Decide a record; False if it is not an ordinary command that can be accepted: nothing has happened then."""
        envelope = read_ordinary(record)
        if envelope is None or self._deferrals.active or record.offset in self._marked:
            return False
        subject, command_id, kind, key = envelope.subject, envelope.id, envelope.type, record.key
        if key is None or key != subject.encode() or kind not in self._commands:
            return False
        if self._partition_of is not None and self._partition_of(key) != self._partition:
            return False
        if (subject, command_id) in self._remembered or self._remembered_of(subject, command_id) is not None:
            return False
        before = self._states.get(subject) or self._state_of(subject)
        expected = None
        if envelope.expectedversion is not UNSET:
            expected = envelope.expected_text()
            if not _holds(expected, before.version if before else 0):
                return False
        data = envelope.data
        try:
            if self._may_nest:
                check_nesting(bytes(data))
            command = self._commands[kind](data)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of the command's own `__post_init__`, too: the other path finds the reason
            return False
        if record.timestamp != self._batch.timestamp:
            self._batch.clock(record)
        mark = fingerprint(kind, data, expected)
        answer = call_decide(self._aggregate, record, envelope, command, before)
        events = answer if isinstance(answer, tuple) else ()
        size = self._accept(record, envelope, expected, mark, before, events) if events else 0
        if size:
            self._batch.event_bytes += size
            self._counts["accepted"] += 1
        else:
            self._conclude(record, envelope, expected, mark, before, answer)
        del answer  # an exception in it holds this frame: they would be a cycle
        return True

    def _conclude(
        self,
        record: Record,
        envelope: OrdinaryCommand,
        expected: str | None,
        mark: int,
        before: Folded | None,
        answer: Answer,
    ) -> None:
        verdict = WrittenVerdict(
            status="unchanged",
            expected=UNSET if expected is None else expected,
            version=before.version if before else 0,
            partition=self._partition,
            offset=record.offset,
            fingerprint=mark,
        )
        self._batch.conclude(record, envelope, verdict, mark, before, answer)

    def _accept(
        self,
        record: Record,
        envelope: OrdinaryCommand,
        expected: str | None,
        mark: int,
        before: Folded | None,
        answer: tuple[Event, ...],
    ) -> int:
        """Write the events, of so many bytes, and the outcome. 0 if they are not plain: nothing has happened then."""
        offset, key, timestamp, time = record.offset, record.key, record.timestamp, self._batch.time
        version, state = (before.version, before.state) if before else (0, self._initial)
        subject, command_id, source, encode = envelope.subject, envelope.id, self._type, self._encode
        place, count, size = f"{self._id}{offset}", len(answer), 0
        trace = "" if _attributes(envelope) == _NOTHING else _written(envelope.handed_on())
        common = (
            f'"subject":"{subject}","time":"{time}","causationid":"{command_id}",'
            f'"correlationid":"{envelope.correlationid or command_id}",{trace}'
        )
        events: list[OutputRecord] = []
        try:
            for index, event in enumerate(answer):
                kind = self._event_types[type(event)]
                data = encode(event)
                state = self._step(state, kind, data)
                version += 1
                numbers = f'"aggregateversion":{version},"eventindex":{index},"eventcount":{count}'
                value = f'{place}/{index}{source}{kind}",{common}{numbers},"data":'.encode() + data + b"}"
                size += len(value)
                if size > self._most_bytes or len(data) > self._most_data:
                    return 0
                events.append((value, key, timestamp))
        except (KeyboardInterrupt, *PROCESS_ERRORS):
            raise
        except BaseException:  # the other path folds again and finds the reason
            return 0
        outcome = (
            f'{place}{source}{envelope.type}.accepted",{common}"data":{{"status":"accepted",'
            f'{"" if expected is None else _believed(expected)}"version":{version},"events":{count},'
            f'"partition":{self._partition},"offset":{offset},"fingerprint":{mark}}}}}'
        )
        self._done.events += events
        self._done.outcomes.append((outcome.encode(), key, timestamp))
        self._states[subject] = Folded(version, state, offset, count - 1, time)
        decision = DedupEntry(timestamp, offset, "accepted", version, count, mark)
        self._remembered[subject, command_id] = decision
        return size


def _believed(expected: str) -> str:
    return f'"expected":"{expected}",'


def _holds(expected: str | None, version: int) -> bool:
    try:
        return expected is None or parse_expected(expected).refusal(version) is None
    except ValueError:
        return False


def _written(attributes: dict[str, str]) -> str:
    return "".join(f'"{name}":"{text}",' for name, text in attributes.items())
