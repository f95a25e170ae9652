"""An owner over a growth: a child waits for its parent's split and takes over what waits; a parent settles and splits.

wait     of a child: it folds what is visible of its keys, until its parent has split
adopt    of a child: it writes the deferred commands that it inherits into its own topic. Its `begun` is in the
         transaction of the last portion
settle   of a parent: it decides by the old count what was sent before it saw the growth. Then it splits, in one
         transaction with its claim
decide   it judges by its count

A parent settles under its fence: what was acknowledged before the topics grew lies below the end that it takes then.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.messages.growth import Begun, Split, growth_value
from cqrs_cli.deciding.deferred_fold import entries_of
from cqrs_cli.deciding.deferring import values
from cqrs_cli.deciding.inherit import drop_moved, portions
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.writer import BatchTransaction
from cqrs_cli.ownership.claim import Claim

#: Deferred commands that one transaction takes over, and their bytes, roughly: it must end in its time.
PORTION, PORTION_BYTES = 5_000, 8 * 1024 * 1024

#: Seconds between two looks at the lineage.
_LOOK_EVERY = 0.03


def awaited(session: OwnerSession, stopping: Callable[[], bool], meanwhile: Callable[[], object]) -> bool:
    """Wait until the parent has split; false if told to stop before. Raises what `Session.check_claim` does."""
    topics, seen, checked = session.described.topics, (0, 0), time.monotonic()
    while session.holding.phase == "wait":
        session.measures.enter("wait")
        if stopping():
            return False
        if (reach := watermarks(session.consumer, topics.lineage, 0)) != seen:  # as far as it is visible
            session.holding = session.plan.read_holding(session.partition, reach, session.log.lender)
            seen = reach
            continue
        if (now := time.monotonic()) - checked >= session.timing.idle_check:
            session.check_claim()
            checked = now
        meanwhile()
        time.sleep(_LOOK_EVERY)
    return True


def adopt(session: OwnerSession, cache: StateCache, at: int) -> None:
    """Take over what waits, over a recovered shard that has decided nothing: a crash before `begun` does it again."""
    session.measures.enter("adopt")
    with cache.reading():
        entries = list(entries_of(cache))
    done = 0
    for portion in portions(entries, PORTION, PORTION_BYTES):
        done += len(portion)
        with _transaction(session, cache, at, session.present_claim()):
            session.writer.note_deferred(values({one.key: one for one in portion}))
            if done == len(entries):
                failpoints.reached("adopt.before_begun")
                session.writer.note_growth(growth_value(Begun(session.partition.number)))
        failpoints.reached("adopt.chunk")
    holding = session.holding
    begun = holding.lineage.with_record(Begun(session.partition.number))
    session.holding = holding._replace(lineage=begun)


def settling_end(session: OwnerSession) -> int | None:
    """The offset up to which the old count judges; None if the partition has nothing to split.

    Asked behind the fence: what was acknowledged before the topics grew lies below it. A later owner's is later.
    """
    return session.end() if session.holding.phase == "settle" else None


def split(session: OwnerSession, cache: StateCache, at: int) -> None:
    """Give the keys away whose home is a child by the next count. The claim has that count from then on."""
    cache.flush()
    holding, known = session.holding, cache.positions
    after = holding.lineage.next_count(holding.number, holding.there)
    assert after is not None
    record = Split(
        holding.number,
        holding.judging,
        after,
        at,
        max(known.events, session.bounds("events")[1]),
        max(known.outcomes, session.bounds("outcomes")[1]),
        max(known.deferred, session.bounds("deferred")[1]),
        known.clock,
    )
    claim = replace(session.present_claim(), partitions=after)
    failpoints.reached("split.before")
    with _transaction(session, cache, at, claim):
        session.writer.note_growth(growth_value(record))
    failpoints.reached("split.after")
    session.mine = claim
    session.holding = holding._replace(lineage=holding.lineage.with_record(record))
    cache.learn_keys(session.holding.keeps, afresh=True)
    cache.check_keys(session.mine.accepted is not None)
    drop_moved(cache, session.holding.keeps)


@contextmanager
def _transaction(
    session: OwnerSession, cache: StateCache, at: int, claim: Claim
) -> Iterator[BatchTransaction]:
    """Commit the writes of the block with the position and a claim."""
    hint = f"allow it: {session.described.topics.lineage} and the deferred topic must take the records"
    with session.transaction(at, f"{session.log.place('commands')} cannot grow", hint, claim) as transaction:
        transaction.write(Decisions(cache.positions.clock))  # begins it
        yield transaction
