"""Claims: the owner of a partition, as a value in the metadata of its offset commits.

Runs are totally ordered by (run_epoch, run); attempts within a run by (submission, Spark's attempt number).
"""

from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.ownership.poison_detection.suspects import Suspects, inherit_suspects

#: The broker's limit on an offset commit's metadata (`offset.metadata.max.bytes`), in bytes.
MAX_METADATA = 4096

#: The attempt of a terminal claim, which ends its run. No task has so high an attempt.
TERMINAL = 2**31 - 1

#: The placeholder for a topic id that is unknown, because the claim replaced a commit without a claim.
UNKNOWN_TOPIC = ""
UNKNOWN_TOPICS = (UNKNOWN_TOPIC, UNKNOWN_TOPIC)


class Counts(Struct, frozen=True, gc=False, omit_defaults=True):
    """The number of an owner's decisions since its run began, by status."""

    accepted: int = 0
    unchanged: int = 0
    rejected: int = 0
    deferred: int = 0
    duplicate: int = 0
    failed: int = 0
    events: int = 0
    first: int = 0  # the time at which the first batch began, ms
    last: int = 0  # the time of the last commit, ms
    transactions: int = 0  # committed transactions with decisions
    commit_us: int = 0  # microseconds that these commits took, except for the last commit

    @property
    def commands(self) -> int:
        return self.accepted + self.unchanged + self.rejected + self.deferred + self.duplicate + self.failed

    def add_batch(self, batch_counts: dict[str, int], batch_began: int, now: int) -> "Counts":
        """Return the sums after a batch with these counts by status, which began at `batch_began` and is committed
        `now` (ms).
        """
        sums = {name: getattr(self, name) + count for name, count in batch_counts.items()}
        return Counts(
            **sums,
            first=self.first or batch_began,
            last=now,
            transactions=self.transactions + 1,
            commit_us=self.commit_us,
        )


class AcceptedLoss(Struct, frozen=True, rename={"offset": "at"}):
    """A loss that an operator accepted (`run --accept-loss`): the offset to continue from, and the ends of the logs at
    that time. Earlier records may contradict each other.

    Sample: `AcceptedLoss(offset=1200, events=(0, 3400), outcomes=1180)`.
    """

    offset: int  # in the commands topic
    events: tuple[int, int]  # start and end of the events
    outcomes: int  # end of the outcomes


def first_valid_offset(accepted_loss: AcceptedLoss | None, log: Literal["events", "outcomes"]) -> int:
    """Return the offset from which the records of a log count; 0 without an accepted loss."""
    if accepted_loss is None:
        return 0
    return accepted_loss.events[1] if log == "events" else accepted_loss.outcomes


class Claim(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={"run_epoch": "generation", "number": "n", "suspects": "trial"},
):
    """The owner of a partition. `number` (`n` in JSON) rises with every claim of the partition, across runs.

    Sample:
    `{"generation":1764547200000,"run":"0f3c9a7b21de","submission":0,"attempt":0,"n":7,"topic_id":"…","partitions":8}`
    """

    run_epoch: int
    run: str  # the id of the run
    submission: int  # the number of the Spark job within the run
    attempt: int  # Spark's number of the attempt at the task
    number: int
    topic_id: str  # of the commands
    partitions: int  # the partition count by which the owner assigns keys
    counts: Counts = Counts()
    accepted: AcceptedLoss | None = None
    other_ids: tuple[str, str] = UNKNOWN_TOPICS  # topic ids of the events and the outcomes
    deferred_id: str = UNKNOWN_TOPIC  # topic id of the deferred commands
    untried: bool = False  # True until a command is decided under this claim
    suspects: Suspects | None = None  # poison-record detection, while it is in progress
    lineage: int = 0  # 1: the owner of a child waits for the split; 0: an older version, which does not wait

    def metadata(self) -> str:
        """Return the JSON text for the metadata of an offset commit."""
        return msgspec.json.encode(self).decode()

    @property
    def token(self) -> str:
        """The owner's name in the shard, such as `7.1764547200000.0f3c9a7b21de.0.0`. It is unique even if the claims'
        numbers started again at 1, because the group's offset had expired.
        """
        return f"{self.number}.{self.run_epoch}.{self.run}.{self.submission}.{self.attempt}"


def parse_claim(metadata: str | None) -> Claim | None:
    """Return the claim in an offset commit's metadata; None for the commit of another client."""
    try:
        return msgspec.json.decode((metadata or "").encode(), type=Claim)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


class Judgement(Enum):
    """The relation of the committed claim to an owner's own claim."""

    OWN = "own"  # this run and attempt; `number` may differ
    LATER_RUN = "taken over"  # a later run: return; the run ends with exit code 6
    LATER_ATTEMPT = "straggler"  # a later attempt of this run: return without an error
    EARLIER = "earlier"  # an older run or attempt, or no claim: continue

    @property
    def must_return(self) -> bool:
        """True if the owner must return."""
        return self in (Judgement.LATER_RUN, Judgement.LATER_ATTEMPT)


def judge(own_claim: Claim, committed_claim: Claim | None) -> Judgement:
    """Compare the committed claim with the own claim by run and attempt, never by number: older runs raise it, too."""
    if committed_claim is None:
        return Judgement.EARLIER
    own_run = (own_claim.run_epoch, own_claim.run)
    committed_run = (committed_claim.run_epoch, committed_claim.run)
    if committed_run > own_run:
        return Judgement.LATER_RUN
    if committed_run < own_run:
        return Judgement.EARLIER
    own_attempt, committed_attempt = (
        (own_claim.submission, own_claim.attempt),
        (committed_claim.submission, committed_claim.attempt),
    )
    if committed_attempt > own_attempt:
        return Judgement.LATER_ATTEMPT
    return Judgement.OWN if committed_attempt == own_attempt else Judgement.EARLIER


def successor_claim(own_claim: Claim, committed_claim: Claim | None, token: str) -> Claim:
    """Return the own claim as the successor of the committed claim; `token` is the token of the shard. The new number
    is above the number of the own claim, of the committed claim and of the token.

    The topic ids, the partition count and the accepted loss of the committed claim are copied unchecked. Step 3
    (`deciding.position`) compares them with the log when the owner starts.
    """
    number = 1 + max(own_claim.number, _number(token), committed_claim.number if committed_claim else 0)
    if committed_claim is None:
        return replace(
            own_claim,
            number=number,
            topic_id=UNKNOWN_TOPIC,
            accepted=None,
            other_ids=UNKNOWN_TOPICS,
            deferred_id=UNKNOWN_TOPIC,
        )
    return replace(
        own_claim,
        number=number,
        topic_id=committed_claim.topic_id,
        partitions=committed_claim.partitions,
        accepted=committed_claim.accepted,
        other_ids=committed_claim.other_ids,
        deferred_id=committed_claim.deferred_id,
    )


def with_suspects(own_claim: Claim, committed_claim: Claim | None, batch_limit: int) -> Claim:
    """Return the own claim before any decision, with the suspects of the committed claim.

    The previous owner did not die if it ran in this process, or if its run was ended by a terminal claim.
    `batch_limit`: the maximal number of commands in a batch.
    """
    if committed_claim is None:
        return replace(own_claim, untried=True)
    is_own = judge(own_claim, committed_claim) is Judgement.OWN
    died = not is_own and committed_claim.attempt != TERMINAL
    return replace(
        own_claim,
        untried=True,
        suspects=inherit_suspects(committed_claim.suspects, committed_claim.untried, died, batch_limit),
    )


def after_batch(claim: Claim, counts: Counts, decided_count: int, end: int) -> Claim:
    """Return the claim to commit with a batch of `decided_count` commands, all below the offset `end`."""
    suspects = None if claim.suspects is None else claim.suspects.after_decided(decided_count, end)
    return replace(claim, counts=counts, untried=False, suspects=suspects)


def with_hung_command(claim: Claim, offset: int, seconds: int) -> Claim:
    """Return the claim that a task commits before it kills itself, because the command at `offset` has not been decided
    after so many seconds.
    """
    suspects = (claim.suspects or Suspects()).after_hang(offset, seconds)
    return replace(claim, untried=False, suspects=suspects, number=claim.number + 1)


def is_shard_idle(token: str, committed_claim: Claim | None) -> bool:
    """Return True if the shard may be folded without a fence: the owner named by its token has been superseded. The
    token must be read before the committed claim.

    Otherwise that owner may be alive, even if its claim is not visible yet. A fold would change the positions of its
    shard, and that owner would have to start again.
    """
    return not token or (committed_claim is not None and committed_claim.number > _number(token))


def is_inconsistency_real(own_claim: Claim, has_claimed: bool, committed_claim: Claim | None) -> bool:
    """Return True if an inconsistency is real; call it after the inconsistency was found.

    It is real only if the committed claim is the own claim, or if there is no claim and this owner has not claimed yet.
    Otherwise another owner took over while this owner was reading.
    """
    if committed_claim is None:
        return not has_claimed
    return judge(own_claim, committed_claim) is Judgement.OWN


def terminal_claim(committed_claim: Claim | None, run: str) -> Claim | None:
    """Return the terminal claim of `run`; None if the committed claim belongs to another run, or is terminal."""
    if committed_claim is None or committed_claim.run != run:
        return None
    if committed_claim.attempt == TERMINAL:
        return None
    return replace(committed_claim, submission=TERMINAL, attempt=TERMINAL, number=committed_claim.number + 1)


def _number(token: str) -> int:
    """Return the claim's number in a shard's token; 0 for an empty token."""
    head = token.partition(".")[0]
    return int(head) if head.isdigit() else 0


def next_run_epoch(clock: int, claims: list[Claim | None]) -> int:
    """Return the epoch of a new run: above the epochs of these claims, and at least `clock`, the present time in ms."""
    return max([clock, *(claim.run_epoch + 1 for claim in claims if claim is not None)])
