"""Verifies a process manager from the topics: the commands that `react` returns for each event before its position must
exist.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli import registry
from cqrs_cli.codec.record_codec import AS_STORED
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.errors import is_interrupt
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.reaction_id import ReactionId
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.react import call_react
from cqrs_cli.core.recorded import Recorded, read_recorded_event
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.processes.composer import Composer
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import OutputTopic
from cqrs_cli.following.processes.position_check import PositionCheck
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION
from cqrs_cli.following.processes.sent_commands import ProcessCommands, command_digest
from cqrs_cli.following.processes.subscription_reader import SubscriptionState, read_subscriptions
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topic_identity import topic_ids
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, visible_key_space
from cqrs_cli.proof.documents import DocumentRedactor, document_redactor
from cqrs_cli.proof.reactions import (
    ReactedRange,
    ReactionCommand,
    ReactionFindings,
    SentCommands,
    SubscribedEvent,
    check_partition_reactions,
    check_unmatched,
    report_changed_commands,
)

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


class _Outputs(NamedTuple):
    """The topics to which a process manager may write, and the functions that compose and compare its records."""

    topics: dict[str, OutputTopic]  # topic without prefix → description
    key_spaces: dict[str, KeySpace]  # topic with prefix → key space
    redactors: dict[str, DocumentRedactor]  # commands topic of an aggregate with personal fields → redactor
    composer: Composer


def verify_process(
    connection: Connection, settings: "Settings", loaded_process: LoadedProcess, report: Callable[[str], None]
) -> ReactionFindings:
    """Verify the positions of the process manager, the events of its subscriptions, and the commands that it sent. A
    run may continue during the verification, so the positions are read before and after the commands.

    Raises `ConfigurationError` for missing topics, `UsageError` for a process manager that has not started.
    """
    process_topics = ProcessTopics(loaded_process.name, settings.topic_prefix)
    findings, positions_label = ReactionFindings(), f"{process_topics.positions_topic}:{POSITIONS_PARTITION}"

    def read_states(add_violation: Callable[[str], None]) -> list[SubscriptionState]:
        check = PositionCheck(positions_label, add_violation)
        return read_subscriptions(connection, process_topics, loaded_process.sources, check.decode)

    states_before = read_states(findings.add_violation)
    if not findings.violation_count and all(state.position is None for state in states_before):
        raise UsageError(
            f"process {loaded_process.name} has not started: there is nothing to verify", "start it: cqrs run"
        )
    source_ids = topic_ids(connection, {state.subscription.source.topic for state in states_before})
    outputs = _load_outputs(connection, settings, loaded_process)
    sent, is_retained = _read_commands(connection, loaded_process.name, outputs, report)
    # Violations in later position records are not reported: the next verification checks these records.
    states_after = {state.subscription: state for state in read_states(lambda problem: None)}
    matched_prefixes, is_complete = defaultdict[str, set[str]](set), dict[str, bool]()  # by events topic
    for before in states_before:
        after, source = states_after[before.subscription], before.subscription.source
        label, reacted = f"{source.topic}:{source.partition}", _reacted_range(before, after)
        report(f"reading {source.topic} partition {source.partition}")
        for problem in _position_problems(before, after, source_ids.get(source.topic)):
            findings.add_violation(f"{label}: {problem}")
        events = _subscribed_events(
            connection, loaded_process, outputs, before, after.end, findings.add_violation
        )
        matched_prefixes[source.topic] |= set(
            check_partition_reactions(label, events, reacted, sent[source.topic], is_retained, findings)
        )
        is_complete[source.topic] = (
            is_complete.get(source.topic, True) and reacted.events_complete and reacted.accepted_until is None
        )
    for topic, by_prefix in sent.items():
        check_unmatched(by_prefix, matched_prefixes[topic], is_complete.get(topic, False), findings)
    report_changed_commands(findings)
    return findings


def _reacted_range(before: SubscriptionState, after: SubscriptionState) -> ReactedRange:
    position_before, position_after = before.position, after.position
    return ReactedRange(
        0 if position_before is None else position_before.offset,
        0 if position_after is None else position_after.offset,
        frozenset(() if position_after is None else position_after.all_skipped),
        None if position_after is None else position_after.accepted,
        after.start == 0,
        None if position_after is None else position_after.start,
    )


def _position_problems(
    before: SubscriptionState, after: SubscriptionState, topic_id: str | None
) -> Iterator[str]:
    """Yield the contradictions between a position and the events topic, which has the id `topic_id`."""
    if before.position is not None and before.position.claim.topic_id != topic_id:
        yield f"the position {before.position.offset} is of another topic: this one was created since"
    if after.position is not None and after.position.offset > after.end:
        yield f"the position is {after.position.offset}, and the log ends at {after.end}"


def _load_outputs(connection: Connection, settings: "Settings", loaded_process: LoadedProcess) -> _Outputs:
    """Return the commands topics of all aggregates, and the topics in the process manager's code, if they exist."""
    outputs, key_spaces = dict[str, OutputTopic](), dict[str, KeySpace]()
    names = registry.names(settings.aggregates, settings.root)
    commands_topics = [Topics(name).commands for name in names]
    for name in dict.fromkeys([*commands_topics, *loaded_process.output_topics]):
        topics = Topics(name.removesuffix(".commands"), settings.topic_prefix)
        topic = settings.topic_prefix + name
        try:
            output = outputs[name] = OutputTopic(topic, readers.partition_count(connection, topic))
        except ConfigurationError:
            continue
        key_spaces[topic] = visible_key_space(connection, topics, settings.partitioner, output.partitions)
    aggregates = {
        name: registry.load(name, settings.aggregates, settings.root)
        for name in names
        if Topics(name).commands in outputs
    }
    redactors = {
        outputs[Topics(name).commands].topic: document_redactor(aggregate)
        for name, aggregate in aggregates.items()
        if aggregate.has_personal_fields
    }
    composer = loaded_process.composer(outputs, settings.partitioner, aggregates.__getitem__)
    return _Outputs(outputs, key_spaces, redactors, composer)


def _read_commands(
    connection: Connection, process: str, outputs: _Outputs, report: Callable[[str], None]
) -> tuple[Mapping[str, SentCommands], Callable[[ReactionCommand, int], bool]]:
    """Return (events topic → commands that the process manager sent, `is_retained` of `check_partition_reactions`)."""
    sent = ProcessCommands(process, outputs.redactors)
    # (topic, partition) → time (ms) of the oldest command, for partitions from which commands were deleted.
    oldest = dict[tuple[str, int], int]()
    for topic, partitions in outputs.topics.values():
        report(f"reading {topic}")
        for partition, (start, end) in readers.bounds(connection, topic, range(partitions)).items():
            for records in readers.read(connection, topic, partition, start, end):
                if start > 0:
                    oldest.setdefault((topic, partition), records[0].timestamp)
                # Digests of commands with personal fields omit the personal values, so data in the payload store are
                # loaded.
                codec = connection.payload_codec() if topic in sent.redactors else AS_STORED
                for decoded in codec.decode_batches(topic, partition, [records]):
                    for record in decoded:
                        sent.add_if_sent(record, topic, partition)

    def is_retained(command: ReactionCommand, time: int) -> bool:
        return all(
            time >= oldest.get((command.topic, partition), 0) for partition in command.allowed_partitions
        )

    return sent.locations, is_retained


def _subscribed_events(
    connection: Connection,
    loaded_process: LoadedProcess,
    outputs: _Outputs,
    state: SubscriptionState,
    end: int,
    report_violation: Callable[[str], None],
) -> Iterator[SubscribedEvent]:
    """Yield the subscribed events of a partition before offset `end`, with the commands that the current `react`
    returns. Report each event that cannot be read.
    """
    source = state.subscription.source
    batches = readers.read(connection, source.topic, source.partition, state.start, end)
    codec = connection.payload_codec()
    for records in codec.decode_batches(source.topic, source.partition, batches):
        for record in records:
            try:
                recorded = read_recorded_event(
                    loaded_process.sources[source.aggregate],
                    record.value,
                    source.topic,
                    source.partition,
                    record.offset,
                )
            except FoldError as error:
                report_violation(
                    f"{source.topic}:{source.partition}@{record.offset}: the event cannot be read: {error}"
                )
                continue
            if type(recorded.event) in loaded_process.events:
                time = milliseconds_of(recorded.time)
                first_id = ReactionId(loaded_process.name, source.topic, recorded.id, time, 0)
                yield SubscribedEvent(
                    record.offset,
                    first_id.id_prefix,
                    time,
                    _expected_commands(loaded_process, outputs, recorded),
                )


def _expected_commands(
    loaded_process: LoadedProcess,
    outputs: _Outputs,
    recorded: Recorded[Event],
) -> list[ReactionCommand] | None:
    try:
        commands = outputs.composer.compose(recorded, call_react(loaded_process.process, recorded))
    except BaseException as error:  # user code may raise any error, which stops the process manager
        if is_interrupt(error):
            raise
        return None
    return [
        ReactionCommand(
            command.topic,
            command.partition,
            command_digest(command.topic, command.key, command.value, outputs.redactors.get(command.topic)),
            earlier_partitions=outputs.key_spaces[command.topic].partitions_of(command.partition)[:-1],
        )
        for command in commands
    ]
