"""Projects several partitions in one process, a thread for each, until one fails, all have ended or all are stopped."""

import threading
from collections.abc import Callable, Iterable

from cqrs_cli.core.encrypted_events import event_marks
from cqrs_cli.following.projections.database import open_database
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.projector import Projector
from cqrs_cli.following.projections.reading import check_position, projected_topics
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail, ReportProgress, Tail
from cqrs_cli.kafka.keys_log import event_decryptor

#: Seconds between two calls of `idle`.
_LOOK_EVERY = 0.2


def project_partitions(
    plan: ProjectionPlan,
    sources: Iterable[EventPartition],
    loaded: LoadedProjection,
    note: ReportProgress,
    idle: Callable[[threading.Event], None] = lambda stopping: None,
) -> list[ProjectorResult]:
    """Project these partitions and return their results.

    `idle` is called repeatedly, and may set its event to stop all threads. The first error stops the other threads, and
    so does a KeyboardInterrupt: committed batches are complete.
    """
    engine = open_database(plan.place)
    stopping = threading.Event()

    begun: set[EventPartition] = set()

    def opened(source: EventPartition, start: int) -> Tail:
        if source in begun:  # reopened after an error
            projected_topics(plan).check_ids()
        begun.add(source)
        check_position(plan.connection, plan.name, source, start)
        connection, marks = plan.connection, event_marks(loaded.aggregates[source.aggregate])
        opener = event_decryptor(connection, connection.keys, source.topics, marks)
        patient = plan.patience is None
        return PartitionTail(
            connection, source, start, note, connection.payloads, decryptor=opener, wait_for_broker=patient
        )

    projectors = [Projector(plan, source, loaded, engine, opened, stopping, note) for source in sources]
    threads = [
        threading.Thread(target=projector.run, name=f"project {number}", daemon=True)
        for number, projector in enumerate(projectors)
    ]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(_LOOK_EVERY / len(threads))
            if any(projector.result and projector.result.error for projector in projectors):
                stopping.set()
            idle(stopping)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        engine.dispose()
    return [projector.result for projector in projectors if projector.result is not None]
