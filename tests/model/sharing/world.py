"""The whole state of the model: the partitions, the transactional ids, the workers, and the possible faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

#: Step label, next world, and the promise that the step breaks (empty if none).
Step = tuple[str, "World", str]
Steps = Iterator[Step]

#: The logs that all partitions share: the group's offsets, and the topic of data keys. Other logs have the number of
#: their partition.
GROUP, KEYS = -1, -2


class Claim(NamedTuple):
    """A claim. `writer` is the transactional id that writes the partition and its claim."""

    writer: str
    run: int
    n: int  # 1 for the partition's first claim, and greater for each later claim


#: The claim of the worker that is active at first.
FIRST_CLAIM = Claim("A", 1, 1)


#: `hidden`: the transaction of the record has ended, but Kafka has lost the marker.
Status = Literal["open", "committed", "aborted", "hidden"]


class Slot(NamedTuple):
    """An outcome in a partition's log."""

    command: int
    status: Status
    writer: str


class Key(NamedTuple):
    """The data key that belongs to an outcome, in the topic that all partitions share."""

    partition: int
    slot: Slot


class Commit(NamedTuple):
    """An offset commit: the position, and the claim in its metadata."""

    position: int = 0
    claim: Claim | None = None


class Share(NamedTuple):
    """The part of a transaction that belongs to one partition."""

    partition: int
    commit: Commit
    offset: int | None = None  # the outcome's offset; None if the transaction contains only an offset commit
    key_offset: int | None = None  # the data key's offset


class Transaction(NamedTuple):
    shares: tuple[Share, ...]
    #: `sent`: the request to end the transaction is under way. `final`: the request has arrived.
    stage: Literal["open", "sent", "final"] = "open"
    missing_markers: tuple[int, ...] = ()  # the logs in which the commit is not visible yet

    def share_of(self, partition: int) -> Share | None:
        return next((share for share in self.shares if share.partition == partition), None)


class Producer(NamedTuple):
    """A transactional id at its coordinator."""

    holder: int | None = None  # number of the worker that called `init_transactions` last
    transaction: Transaction | None = None


class Partition(NamedTuple):
    """One partition: the log of its outcomes, its offset commit, and an outdated answer of a coordinator."""

    log: tuple[Slot, ...] = ()
    commit: Commit = Commit()
    earlier_commit: Commit = Commit()  # the commit before the claim changed last
    #: (transactional id, commit) of each commit that is invisible because Kafka has lost the group's marker.
    hidden_commits: tuple[tuple[str, Commit], ...] = ()

    @property
    def outcome_count(self) -> int:
        return sum(slot.status == "committed" for slot in self.log)


class Owner(NamedTuple):
    """The owner of a partition in a worker. Its knowledge may be outdated."""

    step: str = "gone"
    tries: int = 0  # how often it may still begin a takeover
    fenced_id: str = ""  # the transactional id whose latest producer its worker has
    read: Commit = Commit()
    n: int = 0  # the `n` of its claim
    end: int = 0  # end of the log, as far as the owner knows
    position: int = 0
    is_alone: bool = False  # True while it decides a suspect with the partition's transactional id


class Worker(NamedTuple):
    """A worker process. A new worker calls `init_transactions` with its own id before it is ready."""

    run: int
    id: str
    step: Literal["new", "ready", "gone"]
    owners: tuple[Owner, ...]
    starts: int = 1  # how often it may still start again
    is_old: bool = False  # True for the version before this protocol
    retires: bool = False  # True for the driver that ends a run: its claims name the partitions' own ids


class World(NamedTuple):
    partitions: tuple[Partition, ...]
    producers: tuple[tuple[str, Producer], ...]
    workers: tuple[Worker, ...]
    faults: int = 0
    suspects: int = 0  # how often an owner may leave the shared producer
    keys: tuple[Key, ...] = ()

    def producer(self, id: str) -> Producer:
        return dict(self.producers).get(id, Producer())

    def with_producer(self, id: str, producer: Producer) -> "World":
        return self._replace(producers=tuple(sorted({**dict(self.producers), id: producer}.items())))

    def with_partition(self, number: int, partition: Partition) -> "World":
        partitions = self.partitions
        return self._replace(partitions=(*partitions[:number], partition, *partitions[number + 1 :]))

    def with_worker(self, number: int, worker: Worker) -> "World":
        workers = self.workers
        return self._replace(workers=(*workers[:number], worker, *workers[number + 1 :]))

    def with_owner(self, number: int, partition: int, owner: Owner) -> "World":
        worker = self.workers[number]
        owners = (*worker.owners[:partition], owner, *worker.owners[partition + 1 :])
        return self.with_worker(number, worker._replace(owners=owners))


def partition_id(partition: int) -> str:
    """Return the transactional id of a partition, which is its writer while no claim names another writer."""
    return f"partition {partition}"


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol. A test breaks a rule by replacing its value."""

    claim_producer: Literal["named", "own", "lock"] = "named"  # the producer that commits a takeover's claim
    #: An owner continues when it can read its claim, if its worker has initialised its own id.
    reads_claim_back: bool = True
    reads_claim_after_fence: bool = True
    reads_end_after_claim: bool = True
    waits_for_claim: bool = True  # an owner continues only after the commit of its claim has succeeded
    rereads_claims: bool = True  # a restarted worker reads its claims again
    after_doubt: Literal["reads the log", "aborted", "committed"] = "reads the log"
    new_id_for_restart: bool = False  # a restarted worker claims its partitions again, with a new id
    commits_handover: bool = True  # an owner decides alone only after its claim names the partition's id
    returns_with_partition_id: bool = True  # the partition's id commits the claim that ends deciding alone
    reads_own_write: bool = True  # a read of the claim must contain a commit from after the fence
    checks_offsets: bool = True  # outcomes must get the offsets after the end that was read
    resolves_before_claim: bool = True  # a claim leaves an id only when no transaction of this id is hidden
    resolves_by_traces: bool = True  # a hidden transaction is committed if a part of it is visible
    #: A visible part in any partition counts, and the hidden transaction ends in all partitions.
    resolves_all_partitions: bool = True


@dataclass(frozen=True)
class Scenario:
    """The workers, and the bounds of the model. `workers` are created by `active` and `waiting`."""

    name: str
    workers: tuple[Worker, ...]
    commands: tuple[int, ...] = (1,)  # the number of commands of each partition
    first_claim: Claim | None = FIRST_CLAIM
    faults: int = 0
    crashes: bool = False
    loses_responses: bool = False
    loses_markers: bool = False
    has_keys: bool = False  # each outcome has a data key
    stale_reads: bool = False  # a coordinator may return the commit before the claim changed last
    late_markers: bool = False
    suspects: int = 0
    checks_zombies: bool = True  # False: only the log is checked, because a takeover may lack a fence
    times_out: bool = False  # whether a later run may wait until an open transaction times out

    def first_world(self) -> World:
        partitions = tuple(Partition(commit=Commit(0, self.first_claim)) for _ in self.commands)
        world = World(partitions, (), self.workers, self.faults, self.suspects)
        for number, worker in enumerate(self.workers):
            if worker.step == "ready":
                ids = [partition_id(n) for n in range(len(partitions))] if worker.is_old else [worker.id]
                for id in ids:
                    world = world.with_producer(id, Producer(number))
        return world


def active(run: int, id: str, count: int = 1, starts: int = 1, is_old: bool = False) -> Worker:
    """Return a worker that owns all `count` partitions already, under the scenario's first claim."""
    return Worker(run, id, "ready", (Owner("loop", 1, n=1),) * count, starts, is_old)


def retiring(run: int, *tries: int) -> Worker:
    """Return the driver that replaces the claims of earlier runs by terminal claims, and ends."""
    return waiting(run, "", *tries, is_ready=True)._replace(retires=True)


def waiting(
    run: int, id: str, *tries: int, starts: int = 1, is_old: bool = False, is_ready: bool = False
) -> Worker:
    """Return a worker without claims that takes partitions over, each at most so many times."""
    owners = tuple(Owner("idle", count) if count else Owner() for count in tries)
    return Worker(run, id, "ready" if is_old or is_ready else "new", owners, starts, is_old)
