"""The points of the protocols, and their listeners.

Code that reaches a point calls `reached`, which passes the point's attributes to the listeners. A listener maps the
points that it observes to functions: `{"owner.step": enter_step}`. Failpoints, measures and reports are listeners.
Points are reached once for each batch, never for each command: without a listener a call takes 0.2 µs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Each point with the state of the protocol there, in the order of the protocol, and the attributes of the point.
#: docs/verification.md links here.
POINTS = {
    "message": "there is a message for the operator (`text`)",
    "owner.step": "a step of the owner protocol begins (`step`, one of `deciding.measures.STEPS`)",
    "owner.blocked": "an owner cannot work (`reason`), until a later owner has committed a batch",
    "owner.restarting": "an owner has ended after an error, and another owner is to start",
    "owner.ended": "the last owner has ended",
    "record.slow": "the user's code has processed a record for seconds (`offset`, `seconds`)",
    "record.continued": "the slow record is processed, or its process continued after a pause",
    "shard.opening": "the shard exists; its marker does not yet name it as in use",
    "checkpoint.fetched": "the data of a checkpoint is downloaded and checked; the shard is not replaced yet",
    "checkpoint.installed": "the checkpoint has replaced the shard, which has no marker yet",
    "fence.before": "all visible records are folded",
    "fence.after": "the previous owner is fenced, and its open transaction is ended",
    "claim.before": "the committed claim is checked; the new claim is not committed yet",
    "claim.after": "the new claim is committed",
    "position.before": "the position is checked; it is not committed yet",
    "position.after": "the position is committed",
    "fold.before": "logs are to be folded between positions (`events`, `outcomes`: start and end)",
    "fold.portion": "records are folded up to these positions (`events`, `outcomes`)",
    "recover.owned": "the shard has the new owner's token; nothing is folded yet",
    "recover.events": "events are folded, outcomes are not",
    "recover.deferred": "deferred commands are folded, outcomes are not",
    "recover.after": "the shard is up to date with the log",
    "decide.before": "a batch is polled",
    "decide.after": "the first piece of the batch is decided; no transaction has begun",
    "produce.first": "the broker has the events of the first piece, but not its outcomes (`flush` sends them)",
    "produce.after": "all records are passed to the producer",
    "offsets.after": "the position is part of the transaction",
    "flush.after": "the broker has all records",
    "commit.sent": "the commit request is sent; its response is not read",
    "commit.after": "the commit is acknowledged; the state cache is not updated yet",
    "batch.piece": "a piece is decided (`source`: topic and partition; `outcomes` of the `records` from `start` on)",
    "batch.after": "the batch is committed (`records`; after decisions `now` in ms, and `reasons`: counts by reason; "
    "of a process manager its name `process`, and `reactions`: each event with its commands)",
    "batch.aborted": "a batch has ended with an error, and is not known to be committed",
    "project.after": "rows and position are committed to the database (`projection`, `events`, `began_at` in ns)",
    "send.after": "a client has the outcome of a command, or an error (`sending`: its span; `status`)",
    "spans.dropped": "spans for OpenTelemetry are lost (`count`): the collector did not take them",
    "repartition.history": "the partition history exists, without the request to repartition",
    "repartition.requested": "the partition history has the request; no topic has new partitions yet",
    "repartition.topic": "one more topic has its new partitions; the commands topic is the last",
    "forward.produced": "the broker has the forwarded commands (`flush` sends them); their outcomes are not committed",
    "split.before": "all commands from before the repartitioning are decided; no key is handed over yet",
    "split.after": "the split is committed; the owner has not read the response",
    "import.chunk": "some of the inherited deferred commands are committed to the child's own topic",
    "import.last": "the last inherited deferred commands are produced; the child's activation record is not",
    "resubmit.before": "the due commands are chosen; no transaction has begun",
    "resubmit.produced": "the due commands are resubmitted; their entries are not updated yet",
    "resubmit.updated": "the updated entries of the resubmitted commands are produced",
    "upkeep.produced": "re-encrypted data keys, or a record that lets the keys topic be compacted, are produced",
    "apply.before": "the batch is committed to Kafka, but not to LMDB",
    "apply.inside": "the LMDB transaction is open",
    "apply.after": "the batch is committed to LMDB",
    "checkpoint.copied": "the shard is copied; nothing is uploaded yet",
    "checkpoint.uploaded": "the data of a checkpoint is uploaded, its manifest is not",
    "checkpoint.written": "the manifest of a checkpoint is written; old checkpoints are not removed yet",
    "shard.closing": "the owner has ended; the shard is not synced yet",
    "shard.closed": "the shard is synced and closed; its marker is not written yet",
}

#: The points that a listener observes → functions, which get the attributes of the point as keyword arguments.
Listener = Mapping[str, Callable[..., object]]

#: The listeners of all threads of this process.
process_listeners: list[Listener] = []

#: The listeners of the current thread.
_thread_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("thread_listeners", default=())


def reached(point: str, **attributes: Any) -> None:
    """Call the listeners of this thread, then the listeners of the process, with the attributes of a point."""
    for listener in (*_thread_listeners.get(), *process_listeners):
        if point in listener:
            listener[point](**attributes)


def message_listener(receive: Callable[[str], object]) -> Listener:
    """Return a listener that passes the messages for the operator to `receive`."""
    return {"message": lambda text: receive(text)}


@contextmanager
def observing(*listeners: Listener) -> Iterator[None]:
    """Inside the block, let these listeners observe the points that this thread reaches."""
    token = _thread_listeners.set((*_thread_listeners.get(), *listeners))
    try:
        yield
    finally:
        _thread_listeners.reset(token)
