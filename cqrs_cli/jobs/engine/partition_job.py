"""A Spark job of one task a partition, whose tasks hand back values, errors too: Spark sees none fail."""

import gc
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from confluent_kafka import KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.session import gave_up
from cqrs_cli.kafka.clients import unreachable
from cqrs_cli.kafka.connection.connection import Connection

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: How often a watcher hears how far it is, in seconds.
LOOK_EVERY = 0.2


class Share(Protocol):
    """What came of one partition: a result, or the error that ends the job."""

    @property
    def error(self) -> CqrsError | None: ...


S = TypeVar("S", bound=Share)


def collector(context: "SparkContext", kind: type[S]) -> "Accumulator[dict[int, S]]":
    """Collects shares by partition: a task adds `{partition: share}`."""
    return context.accumulator({}, _Merged())  # type: ignore[arg-type]


class _Merged:
    """Collects the tasks' shares; one that Spark ran twice counts once."""

    def zero(self, value: dict[int, S]) -> dict[int, S]:
        return {}

    def addInPlace(self, one: dict[int, S], other: dict[int, S]) -> dict[int, S]:
        one.update(other)
        return one


def finish(
    context: "SparkContext",
    shares: "Accumulator[dict[int, S]]",
    job: Callable[[], None],
    watch: Callable[[dict[int, S]], None],
) -> dict[int, S]:
    """Run a job that adds to `shares` to its end; raises the gravest error of its tasks, of the lowest partition.

    `watch` hears what has come, now and then.
    """
    running = _Job(job)
    while running.is_alive():
        running.join(LOOK_EVERY)
        watch(dict(shares.value))
    found = dict(sorted(shares.value.items()))
    errors = [share.error for share in found.values() if share.error is not None]
    if errors:
        raise max(errors, key=lambda error: error.exit_code)
    if running.error is not None:
        error = running.error
        raise error if isinstance(error, CqrsError) else gave_up(context, error)
    return found


class _Job(threading.Thread):
    """A Spark job beside the driver's watch, so that Ctrl-C meets no call that is waiting for the JVM."""

    def __init__(self, job: Callable[[], None]) -> None:
        super().__init__(name="job", daemon=True)
        self._job = job
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._job()
        except Exception as error:  # py4j wraps whatever Spark says
            self.error = error


def guarded(connection: Connection, what: str, work: Callable[[], S], failed: Callable[[CqrsError], S]) -> S:
    """On a worker: what `work` gives, or what `failed` makes of the error that it raises. `what` it is about."""
    try:
        with _collecting_nothing():
            return work()
    except CqrsError as error:
        return failed(error)
    except KafkaException as error:
        return failed(unreachable(connection, error))
    except Exception as bug:
        traceback.print_exc()
        return failed(CqrsError(f"{what}: {type(bug).__name__}: {bug}", "Spark's log has the traceback"))


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """No cyclic garbage collection: reading makes no cycles, and walking millions of objects takes seconds."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
