"""Verifies a process manager from its topics: each event before its position must have its commands."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.reaction_id import ReactionId
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.react import reaction
from cqrs_cli.core.recorded import Recorded, record_event
from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.following.processes.compose import Composer
from cqrs_cli.following.processes.heard import HeardPartition, heard_partitions
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import CommandsTopic
from cqrs_cli.following.processes.sent import ProcessCommands, command_digest
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.segments import PartitionCounts, find_partition_counts
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.payloads.download import checked_out, look_up
from cqrs_cli.proof.documents import MaskDocument, masking
from cqrs_cli.proof.reactions import (
    HeardEvent,
    ReactedRange,
    ReactionPlace,
    Reactions,
    judge_others,
    judge_partition,
    judge_strays,
)

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


def verify_process(
    connection: Connection, settings: "Settings", loaded: LoadedProcess, note: Callable[[str], None]
) -> Reactions:
    """Judge every event of the process manager's subscriptions and every command that it sent, even during a run.

    Raises `ConfigurationError` for missing topics, `UsageError` for a process manager that has not started.
    """
    where = ProcessTopics(loaded.name, settings.topic_prefix), loaded.sources
    before = heard_partitions(connection, *where)
    if all(one.position is None for one in before):
        raise UsageError(f"process {loaded.name} has not begun: there is nothing to verify", "cqrs run")
    commands, chains = _commands_topics(connection, settings)
    load = {name: registry.load(name, settings.aggregates, settings.root) for name in commands}
    masks = {commands[name].topic: masking(one) for name, one in load.items() if one.has_personal_fields}
    taken, oldest = _read_commands(connection, ProcessCommands(loaded.name, masks), commands, note)
    sent = taken.found
    after = {one.subscription: one for one in heard_partitions(connection, *where)}
    composer = Composer(loaded.name, commands, settings.partitioner, load.__getitem__)
    found, matched, whole = Reactions(), defaultdict[str, set[str]](set), dict[str, bool]()
    for one in before:
        later, source = after[one.subscription], one.subscription.source
        reacted = _range(one, later)
        note(f"reading {source.topic} partition {source.partition}")
        events = _heard(connection, loaded, composer, chains, masks, one, later.end)
        place = f"{source.topic}:{source.partition}"
        kept = _keeper(oldest)
        matched[source.topic] |= set(judge_partition(place, events, reacted, sent[source.topic], kept, found))
        whole[source.topic] = whole.get(source.topic, True) and reacted.whole and reacted.accepted is None
    for topic, by_origin in sent.items():
        judge_strays(by_origin, matched[topic], whole.get(topic, False), found)
    judge_others(found)
    return found


def _keeper(oldest: dict[tuple[str, int], int]) -> Callable[[ReactionPlace, int], bool]:
    return lambda place, time: all(time >= oldest.get((place.topic, one), 0) for one in place.homes)


def _range(before: HeardPartition, after: HeardPartition) -> ReactedRange:
    first, last = before.position, after.position
    return ReactedRange(
        0 if first is None else first.offset,
        0 if last is None else last.offset,
        frozenset(() if last is None else last.all_skipped),
        None if last is None else last.accepted,
        after.start == 0,
    )


def _commands_topics(
    connection: Connection, settings: "Settings"
) -> tuple[dict[str, CommandsTopic], dict[str, PartitionCounts]]:
    """Return the existing commands topics by aggregate, and the segments of keys in each topic."""
    found, chains = {}, {}
    for name in registry.names(settings.aggregates, settings.root):
        topics = Topics(name, settings.topic_prefix)
        try:
            found[name] = CommandsTopic(topics.commands, readers.partition_count(connection, topics.commands))
        except ConfigurationError:
            continue
        chains[topics.commands] = find_partition_counts(
            connection, topics, settings.partitioner, found[name].partitions
        )
    return found, chains


def _read_commands(
    connection: Connection,
    sent: ProcessCommands,
    topics: dict[str, CommandsTopic],
    note: Callable[[str], None],
) -> tuple[ProcessCommands, dict[tuple[str, int], int]]:
    """Read the commands that the process manager sent.

    Also return the time (ms) of the oldest command in each partition from which commands were deleted.
    """
    oldest = dict[tuple[str, int], int]()
    for topic, partitions in topics.values():
        note(f"reading {topic}")
        for number, (start, end) in readers.bounds(connection, topic, range(partitions)).items():
            for records in readers.read(connection, topic, number, start, end):
                if start > 0:
                    oldest.setdefault((topic, number), records[0].timestamp)
                for record in _with_data(connection, topic, records) if topic in sent.masks else records:
                    sent.take(record, topic, number)
    return sent, oldest


def _heard(
    connection: Connection,
    loaded: LoadedProcess,
    composer: Composer,
    chains: Mapping[str, PartitionCounts],
    masks: Mapping[str, MaskDocument],
    status: HeardPartition,
    end: int,
) -> Iterator[HeardEvent]:
    """Yield the subscribed events of a partition, with the commands that `react` returns for each event now."""
    source = status.subscription.source
    read = readers.read(connection, source.topic, source.partition, status.start, end)
    for records in checked_out(connection.payloads, source.topic, source.partition, read):
        for record in records:
            try:
                recorded = record_event(
                    loaded.sources[source.aggregate],
                    record.value,
                    source.topic,
                    source.partition,
                    record.offset,
                )
            except FoldError as error:
                raise ContradictionError(
                    f"{source.topic}:{source.partition}@{record.offset}: {error}",
                    "verify with the code that reads it",
                ) from error
            if type(recorded.event) in loaded.events:
                time = milliseconds_of(recorded.time)
                first = ReactionId(loaded.name, source.topic, recorded.id, time, 0)
                yield HeardEvent(
                    record.offset, first.origin, time, _given(loaded, composer, chains, masks, recorded)
                )


def _with_data(connection: Connection, topic: str, records: list[Record]) -> Iterator[Record]:
    """Yield commands with personal fields, with payloads if available: their digests omit personal values."""
    rest = records
    while rest and connection.payloads is not None:
        found, rest = look_up(connection.payloads, topic, rest)
        yield from found
    yield from rest


def _given(
    loaded: LoadedProcess,
    composer: Composer,
    chains: Mapping[str, PartitionCounts],
    masks: Mapping[str, MaskDocument],
    recorded: Recorded[Event],
) -> list[ReactionPlace] | None:
    try:
        made = composer.compose(recorded, reaction(loaded.process, recorded))
    except KeyboardInterrupt:
        raise
    except BaseException:  # user code may raise any error; such an error would have stopped the process
        return None
    return [
        ReactionPlace(
            one.topic,
            one.partition,
            command_digest(one.topic, one.key, one.value, masks.get(one.topic)),
            before=chains[one.topic].partitions_of(one.partition)[:-1],
        )
        for one in made
    ]
