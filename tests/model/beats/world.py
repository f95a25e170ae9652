"""The state of the model: the logs of a partition, the group's offset with the claim, owners, and possible faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cqrs_cli.ownership.claim import Claim

#: The kind of a command: it has an event, no event (rejected), or a record in another topic (a deferred command).
Kind = Literal["accepted", "rejected", "deferred"]

#: The logs to which an owner writes; `others` stands for deferred commands, dead letters and keys.
LogName = Literal["outcomes", "events", "others"]

#: The parts of a transaction. Each part gets its own marker.
Part = Literal["outcomes", "events", "others", "group"]

#: Kafka has lost the marker of a `hidden` record, and retention has deleted a `deleted` record.
Status = Literal["open", "committed", "aborted", "hidden", "deleted"]

LOG_OF_KIND: dict[Kind, LogName] = {"accepted": "events", "deferred": "others"}


class Slot(NamedTuple):
    """A record: the offset of its command, and the number of the claim under which the command was decided."""

    command: int
    status: Status
    claim_number: int
    is_failed: bool = False


Log = tuple[Slot, ...]


class Logs(NamedTuple):
    """The logs, as a broker returns them."""

    outcomes: Log = ()
    events: Log = ()
    others: Log = ()

    def log(self, name: LogName) -> Log:
        log: Log = getattr(self, name)
        return log


class Commit(NamedTuple):
    """The group's offset and its claim."""

    offset: int | None = None
    claim: Claim | None = None


class Snapshot(NamedTuple):
    """What a broker returns. A broker that is cut off keeps returning an earlier snapshot."""

    logs: Logs
    commit: Commit
    commands_end: int


class Transaction(NamedTuple):
    """A transaction whose end request is under way (`is_final` is False) or has arrived.

    `command` is None for a transaction that commits only a position. `commit` is None if the position is omitted.
    """

    owner: int
    command: int | None
    commit: Commit | None
    missing_markers: tuple[Part, ...]
    is_final: bool = False


class Owner(NamedTuple):
    """An owner of the partition. Its knowledge may be outdated."""

    step: str
    claim: Claim
    starts: int = 1
    is_old: bool = False  # True: an owner of a version that commits each position
    read: Commit = Commit()  # the group's offset and claim that it has read
    committed: Commit = Commit()  # its last commit of a position
    next_offset: int = 0
    outcomes_end: int = 0  # the end of the outcomes with which it may append
    events_end: int = 0
    drain_end: int | None = None  # the end of the commands before a split
    next_step: str = ""

    def __str__(self) -> str:
        return f"run {self.claim.run_epoch}.{self.claim.attempt}"


class World(NamedTuple):
    owners: tuple[Owner, ...]
    logs: Logs = Logs()
    commit: Commit = Commit()
    hidden_commit: Commit | None = None  # a commit whose marker Kafka has lost
    epoch: int | None = None  # the owner whose producer may write
    transaction: Transaction | None = None
    outdated: Snapshot | None = None  # returned by a broker that is cut off
    split_end: int | None = None  # the end of the outcomes in the record of the split
    faults: int = 0

    def with_owner(self, number: int, owner: Owner) -> "World":
        return self._replace(owners=(*self.owners[:number], owner, *self.owners[number + 1 :]))

    def with_log(self, name: LogName, log: Log) -> "World":
        return self._replace(logs=self.logs._replace(**{name: log}))


class Step(NamedTuple):
    """One possible next step. `broken_promise` is the promise that it breaks."""

    label: str
    world: World
    broken_promise: str = ""


Steps = Iterator[Step]


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol. A test breaks a rule by setting it to False."""

    omits_positions: bool = True  # a transaction whose position is not due may omit it
    reads_last_outcome: bool = True  # the position is the later of the group's offset and the last outcome
    reads_after_fence: bool = True  # the outcomes are read after the fence
    commits_changed_claim: bool = True  # a changed claim makes the position due
    commits_other_records: bool = True  # records in other topics make the position due
    checks_offsets: bool = True  # records must get the offsets after the ends that were read
    appends_after_position: bool = True  # the end of the outcomes comes from the read that gave the position
    proves_ends_before_split: bool = True
    traces_other_records: bool = True  # a hidden record in another topic names its command
    resolves_by_traces: bool = True  # a hidden transaction is committed if a part of it is visible
    blames_after_outcomes: bool = True  # the watchdog reads the last outcome before it blames a command
    reads_last_event: bool = True  # the position is after the last event if all outcomes are deleted


@dataclass(frozen=True)
class Scenario:
    """The commands and owners, and the bounds of the model. `owners` are created by `new_owner`."""

    name: str
    owners: tuple[Owner, ...]
    commands: tuple[Kind, ...] = ("accepted", "rejected", "accepted")
    faults: int = 0
    crashes: bool = False
    late_markers: bool = False
    loses_markers: bool = False
    outdated_logs: bool = False  # whether the leader of the logs may be cut off
    outdated_group: bool = False  # whether the coordinator of the group may be cut off
    retention: bool = False
    hangs: bool = False  # whether the watchdog may take a command for hanging
    splits: bool = False  # whether an owner splits the partition after it has decided the commands in its log
    deadly: int | None = None  # the command that kills its worker

    def first_world(self) -> World:
        return World(self.owners, faults=self.faults)


def new_owner(run: int, starts: int = 1, is_old: bool = False) -> Owner:
    """Return an owner that may start so many times, again after errors and crashes."""
    return Owner("fence", Claim(run, f"r{run}", 0, 0, 0, "id", 1), starts, is_old)
