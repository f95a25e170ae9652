"""Projects several partitions in one process, with one thread for each partition."""

import threading
from collections.abc import Callable, Iterable

from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.following.projections.database import open_database
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import Position
from cqrs_cli.following.projections.projector import Projector
from cqrs_cli.following.projections.reading import check_last_event, check_position_in_log, topic_identity
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail, ReportMessage, Tail
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.telemetry.otel.tracing import tracing

#: Seconds between two calls of `on_idle`.
_IDLE_INTERVAL = 0.2


def project_partitions(
    plan: ProjectionPlan,
    sources: Iterable[EventPartition],
    loaded_projection: LoadedProjection,
    report: ReportMessage,
    on_idle: Callable[[threading.Event], None] = lambda stopping: None,
) -> list[ProjectorResult]:
    """Project these partitions until all have ended, and return their results. The first error stops the other threads,
    and so does a KeyboardInterrupt.

    `report` gets messages for the operator. `on_idle(stopping)` is called at regular intervals, and may set `stopping`
    to stop all threads.
    """
    engine = open_database(plan.database)
    stopping = threading.Event()

    opened_sources: set[EventPartition] = set()

    def open_tail(source: EventPartition, position: Position) -> Tail:
        if source in opened_sources:  # reopened after an error
            topic_identity(plan).check_ids()
        opened_sources.add(source)
        check_position_in_log(plan.connection, plan.name, source, position.next_offset)
        check_last_event(plan.connection, plan.name, source, position)
        codec = decrypting_codec(
            plan.connection, source.topics, loaded_projection.aggregates[source.aggregate]
        )
        waits_forever = plan.timeout is None
        return PartitionTail(
            plan.connection,
            source,
            position.next_offset,
            codec,
            wait_for_broker=waits_forever,
        )

    projectors = [
        Projector(plan, source, loaded_projection, engine, open_tail, stopping) for source in sources
    ]
    threads = [
        threading.Thread(target=run_observed, args=(projector, report), name=f"project {number}", daemon=True)
        for number, projector in enumerate(projectors)
    ]
    with tracing(report):
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(_IDLE_INTERVAL / len(threads))
                if any(projector.result and projector.result.error for projector in projectors):
                    stopping.set()
                on_idle(stopping)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
            engine.dispose()
    return [projector.result for projector in projectors if projector.result is not None]


def run_observed(projector: Projector, report: ReportMessage) -> None:
    """Run a projector in this thread; `report` gets messages for the operator."""
    with observing(message_listener(report)):
        projector.run()
