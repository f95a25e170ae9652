"""Verifies a process manager from its topics: for each event before its position, `react`'s commands must exist."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

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
from cqrs_cli.following.processes.compose import Composer
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import CommandsTopic
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
from cqrs_cli.proof.documents import MaskDocument, document_mask
from cqrs_cli.proof.reactions import (
    ReactedRange,
    ReactionCommand,
    Reactions,
    SubscribedEvent,
    check_partition_reactions,
    check_unmatched,
    report_changed_commands,
)

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


def verify_process(
    connection: Connection, settings: "Settings", loaded_process: LoadedProcess, report: Callable[[str], None]
) -> Reactions:
    """Verify the positions of the process manager, the events of its subscriptions, and the commands that it sent. A
    run may continue during the verification.

    Raises `ConfigurationError` for missing topics, `UsageError` for a process manager that has not started.
    """
    process_topics = ProcessTopics(loaded_process.name, settings.topic_prefix)
    findings, positions_label = Reactions(), f"{process_topics.positions}:{POSITIONS_PARTITION}"
    position_check = PositionCheck(positions_label, findings.add_violation)
    states_before = read_subscriptions(
        connection, process_topics, loaded_process.sources, position_check.decode
    )
    if not findings.count and all(state.position is None for state in states_before):
        raise UsageError(
            f"process {loaded_process.name} has not started: there is nothing to verify", "start it: cqrs run"
        )
    source_ids = topic_ids(connection, {state.subscription.source.topic for state in states_before})
    commands, key_spaces = _commands_topics(connection, settings)
    aggregates = {name: registry.load(name, settings.aggregates, settings.root) for name in commands}
    masks = {
        commands[name].topic: document_mask(aggregate)
        for name, aggregate in aggregates.items()
        if aggregate.has_personal_fields
    }
    sent_commands, oldest = _read_commands(
        connection, ProcessCommands(loaded_process.name, masks), commands, report
    )
    sent = sent_commands.locations
    # Reports nothing: the second read includes later records, which the next verify checks.
    unreported_check = PositionCheck(positions_label, lambda problem: None)
    states_after = {
        state.subscription: state
        for state in read_subscriptions(
            connection, process_topics, loaded_process.sources, unreported_check.decode
        )
    }
    composer = Composer(loaded_process.name, commands, settings.partitioner, aggregates.__getitem__)
    matched, is_complete = defaultdict[str, set[str]](set), dict[str, bool]()
    for state in states_before:
        later, source = states_after[state.subscription], state.subscription.source
        reacted = _reacted_range(state, later)
        report(f"reading {source.topic} partition {source.partition}")
        events = _subscribed_events(
            connection, loaded_process, composer, key_spaces, masks, state, later.end, findings.add_violation
        )
        topic_partition = f"{source.topic}:{source.partition}"
        for problem in _position_problems(state, later, source_ids.get(source.topic)):
            findings.add_violation(f"{topic_partition}: {problem}")
        is_retained = _retention_filter(oldest)
        matched[source.topic] |= set(
            check_partition_reactions(
                topic_partition, events, reacted, sent[source.topic], is_retained, findings
            )
        )
        is_complete[source.topic] = (
            is_complete.get(source.topic, True) and reacted.events_complete and reacted.accepted_until is None
        )
    for topic, by_origin in sent.items():
        check_unmatched(by_origin, matched[topic], is_complete.get(topic, False), findings)
    report_changed_commands(findings)
    return findings


def _retention_filter(oldest: dict[tuple[str, int], int]) -> Callable[[ReactionCommand, int], bool]:
    return lambda command, time: all(
        time >= oldest.get((command.topic, partition), 0) for partition in command.allowed_partitions
    )


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
    """Yield the contradictions of a position to the events topic, which has the id `topic_id`."""
    if before.position is not None and before.position.claim.topic_id != topic_id:
        yield f"the position {before.position.offset} is of another topic: this one was created since"
    if after.position is not None and after.position.offset > after.end:
        yield f"the position is {after.position.offset}, and the log ends at {after.end}"


def _commands_topics(
    connection: Connection, settings: "Settings"
) -> tuple[dict[str, CommandsTopic], dict[str, KeySpace]]:
    """Return the existing commands topics by aggregate, and the key space of each topic."""
    commands_topics, key_spaces = {}, {}
    for name in registry.names(settings.aggregates, settings.root):
        topics = Topics(name, settings.topic_prefix)
        try:
            commands_topics[name] = CommandsTopic(
                topics.commands, readers.partition_count(connection, topics.commands)
            )
        except ConfigurationError:
            continue
        key_spaces[topics.commands] = visible_key_space(
            connection, topics, settings.partitioner, commands_topics[name].partitions
        )
    return commands_topics, key_spaces


def _read_commands(
    connection: Connection,
    sent: ProcessCommands,
    topics: dict[str, CommandsTopic],
    report: Callable[[str], None],
) -> tuple[ProcessCommands, dict[tuple[str, int], int]]:
    """Read the commands that the process manager sent.

    Also return the time (ms) of the oldest command in each partition from which commands were deleted.
    """
    oldest = dict[tuple[str, int], int]()
    for topic, partitions in topics.values():
        report(f"reading {topic}")
        for partition, (start, end) in readers.bounds(connection, topic, range(partitions)).items():
            for records in readers.read(connection, topic, partition, start, end):
                if start > 0:
                    oldest.setdefault((topic, partition), records[0].timestamp)
                # Digests of commands with personal fields omit the personal values, so data in the payload store are
                # loaded.
                codec = connection.payload_codec() if topic in sent.masks else AS_STORED
                for decoded in codec.decode_batches(topic, partition, [records]):
                    for record in decoded:
                        sent.add_if_sent(record, topic, partition)
    return sent, oldest


def _subscribed_events(
    connection: Connection,
    loaded_process: LoadedProcess,
    composer: Composer,
    key_spaces: Mapping[str, KeySpace],
    masks: Mapping[str, MaskDocument],
    state: SubscriptionState,
    end: int,
    report_violation: Callable[[str], None],
) -> Iterator[SubscribedEvent]:
    """Yield the subscribed events of a partition, with the commands that `react` returns for each event now. An event
    that cannot be read is a violation.
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
                    first_id.origin,
                    time,
                    _expected_commands(loaded_process, composer, key_spaces, masks, recorded),
                )


def _expected_commands(
    loaded_process: LoadedProcess,
    composer: Composer,
    key_spaces: Mapping[str, KeySpace],
    masks: Mapping[str, MaskDocument],
    recorded: Recorded[Event],
) -> list[ReactionCommand] | None:
    try:
        commands = composer.compose(recorded, call_react(loaded_process.process, recorded))
    except BaseException as error:  # user code may raise any error; it would have stopped the process
        if is_interrupt(error):
            raise
        return None
    return [
        ReactionCommand(
            command.topic,
            command.partition,
            command_digest(command.topic, command.key, command.value, masks.get(command.topic)),
            earlier_partitions=key_spaces[command.topic].partitions_of(command.partition)[:-1],
        )
        for command in commands
    ]
